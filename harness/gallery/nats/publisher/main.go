// A client program of the gallery that publishes to streams of NATS JetStream with nats.go.
// harness/gallery/core/clients.py explains the protocol.
//
// A record is one message to the subject that has the stream's name, sent once: without a message id and without a
// retry. The offset of a record is its sequence in the stream. Whatever is not acknowledged with a sequence ends as
// `info`, an error of the server too: a message may be in the stream although its acknowledgement was an error.
//
// Settings: servers, publishers (how many records may be open at once), timeout (for an acknowledgement).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
)

type command struct {
	Op         int64             `json:"op"`
	Do         string            `json:"do"`
	Settings   map[string]string `json:"settings"`
	Topic      string            `json:"topic"`
	Partitions []int             `json:"partitions"`
	Each       int64             `json:"each"`
	First      int64             `json:"first"`
	Size       int               `json:"size"`
	Rate       float64           `json:"rate"`
	Load       int64             `json:"load"`
}

type record struct {
	op        int64
	topic     string
	partition int
	value     int64
	size      int
}

// ack is the server's answer to a message.
type ack struct {
	Seq   *uint64 `json:"seq"`
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

type answer map[string]any

type program struct {
	output  sync.Mutex
	encoder *json.Encoder

	conn    *nats.Conn
	timeout time.Duration
	records chan record
	workers sync.WaitGroup
	loads   map[int64]chan struct{}
	running sync.WaitGroup
}

func main() {
	p := &program{encoder: json.NewEncoder(os.Stdout), loads: map[int64]chan struct{}{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), 1<<24)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			p.answer(answer{"op": c.Op, "error": err.Error()})
			continue
		}
		if err := p.carryOut(c); err != nil {
			p.answer(answer{"op": c.Op, "error": err.Error()})
		}
	}
}

func (p *program) carryOut(c command) error {
	switch c.Do {
	case "open":
		return p.connect(c)
	case "send":
		p.running.Add(1)
		go p.send(c)
		p.answer(answer{"op": c.Op, "done": true})
	case "load":
		stop := make(chan struct{})
		p.loads[c.Op] = stop
		p.running.Add(1)
		go p.load(c, stop)
	case "stop":
		stop, known := p.loads[c.Load]
		if !known {
			return fmt.Errorf("load: %d is no load", c.Load)
		}
		delete(p.loads, c.Load)
		close(stop)
		p.answer(answer{"op": c.Op, "done": true})
	case "close":
		p.close()
		p.answer(answer{"op": c.Op, "done": true})
	default:
		return fmt.Errorf("do: %q is not known to this client", c.Do)
	}
	return nil
}

func (p *program) connect(c command) error {
	publishers, err := strconv.Atoi(c.Settings["publishers"])
	if err != nil || publishers < 1 {
		return fmt.Errorf("publishers: %q must be a number from 1", c.Settings["publishers"])
	}
	if p.timeout, err = time.ParseDuration(c.Settings["timeout"]); err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	// A paused server does not answer; two unanswered pings lead to another one. Nothing is kept for a reconnection.
	p.conn, err = nats.Connect(c.Settings["servers"], nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second))
	if err != nil {
		return err
	}
	p.records = make(chan record)
	for n := 0; n < publishers; n++ {
		p.workers.Add(1)
		go p.publish()
	}
	p.answer(answer{"op": c.Op, "client": "nats.go " + nats.Version})
	return nil
}

// send hands records to the publishers. A record's invocation is when one of them publishes it.
func (p *program) send(c command) {
	defer p.running.Done()
	value := c.First
	for round := int64(0); round < c.Each; round++ {
		for _, partition := range c.Partitions {
			p.records <- record{c.Op, c.Topic, partition, value, c.Size}
			value++
		}
	}
}

// load offers a record to the publishers whenever one is due. While all of them wait, records are left out.
func (p *program) load(c command, stop chan struct{}) {
	defer p.running.Done()
	began, made := time.Now(), int64(0)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			for due := int64(time.Since(began).Seconds() * c.Rate); made < due; made++ {
				partition := c.Partitions[made%int64(len(c.Partitions))]
				select {
				case p.records <- record{c.Op, c.Topic, partition, c.First + made, c.Size}:
				default:
				}
			}
		}
	}
}

func (p *program) publish() {
	defer p.workers.Done()
	for r := range p.records {
		p.publishOne(r)
	}
}

func (p *program) publishOne(r record) {
	content := strconv.FormatInt(r.value, 10)
	if missing := r.size - len(content); missing > 0 {
		content += strings.Repeat(" ", missing)
	}
	fate := answer{"op": r.op, "value": r.value, "partition": r.partition, "invoked": monotonic()}
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	reply, err := p.conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: r.topic, Data: []byte(content)})
	fate["completed"] = monotonic()
	if seq, reason := sequence(reply, err); reason != "" {
		fate["type"], fate["error"] = "info", reason
	} else {
		fate["type"], fate["offset"] = "ok", seq
	}
	p.answer(fate)
}

// sequence returns what the server has acknowledged, or why it is not known whether there is anything.
func sequence(reply *nats.Msg, err error) (uint64, string) {
	if err != nil {
		return 0, err.Error()
	}
	var found ack
	if err := json.Unmarshal(reply.Data, &found); err != nil {
		return 0, "no acknowledgement: " + err.Error()
	}
	if found.Error != nil {
		return 0, found.Error.Description
	}
	if found.Seq == nil {
		return 0, "an acknowledgement without a sequence"
	}
	return *found.Seq, ""
}

// close waits until every record has a fate: each of them has its own timeout.
func (p *program) close() {
	for op, stop := range p.loads {
		close(stop)
		delete(p.loads, op)
	}
	p.running.Wait()
	if p.conn == nil {
		return
	}
	close(p.records)
	p.workers.Wait()
	p.conn.Close()
}

func (p *program) answer(what answer) {
	p.output.Lock()
	defer p.output.Unlock()
	if err := p.encoder.Encode(what); err != nil {
		os.Exit(1) // the reader of the answers has ended
	}
}

// monotonic returns the nanoseconds of the machine's monotonic clock, which Squall reads as well.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}
