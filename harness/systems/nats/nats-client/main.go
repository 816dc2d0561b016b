// A client program for streams of NATS JetStream, with nats.go. docs/client-programs.md explains the lines.
//
// A topic is a stream with the subject of its name, and has one partition; an offset is the sequence in the stream. A
// record is the value in decimal digits, filled up with spaces.
//
// A send is one message, sent once: without a message id and without a retry. Whatever is not acknowledged with a
// sequence ends as `info`, an error of the server too: the message may be in the stream although its acknowledgement was
// an error. A send is `fail` only if the connection was known to be lost, so that nothing was written.
//
// A poll reads from its position by an ephemeral consumer, which is kept while polls go on where the last one ended.
// Messages are delivered without acknowledgement, so some may be lost on their way. The consumer numbers them: where a
// number is missing, the poll ends before the gap, and the next one begins another consumer at that place.
//
// Settings: timeout (for an acknowledgement, and for every other answer of a server; 2s).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	protocol     = 1
	inactive     = time.Minute
	afterFailure = 100 * time.Millisecond // so that polls that fail at once do not spin
	silence      = 500 * time.Millisecond // beyond the time that a fetch may take
)

type request struct {
	ID       int64             `json:"id"`
	F        string            `json:"f"`
	Protocol int               `json:"protocol"`
	Servers  []string          `json:"servers"`
	Acks     string            `json:"acks"`
	Settings map[string]string `json:"settings"`
	Topic    string            `json:"topic"`
	Value    int64             `json:"value"`
	Size     int               `json:"size"`
	Position uint64            `json:"position"`
	Most     int               `json:"most"`
	WaitMS   int64             `json:"wait_ms"`
}

type answer map[string]any

// ack is the server's answer to a message.
type ack struct {
	Seq   *uint64 `json:"seq"`
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

type program struct {
	output  sync.Mutex
	encoder *json.Encoder

	conn    *nats.Conn
	js      jetstream.JetStream
	timeout time.Duration

	lock    sync.Mutex
	readers map[string]*reader
}

// reader reads one stream. next is where its consumer goes on, delivered the number of the consumer's last message.
type reader struct {
	sync.Mutex
	consumer  jetstream.Consumer
	next      uint64
	delivered uint64
}

func main() {
	p := &program{encoder: json.NewEncoder(os.Stdout), readers: map[string]*reader{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), 1<<24)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "no request:", err)
			os.Exit(1)
		}
		if r.F == "open" {
			p.answer(r, p.open(r))
			continue
		}
		go func() { p.answer(r, p.carryOut(r)) }()
	}
}

func (p *program) carryOut(r request) answer {
	switch r.F {
	case "send":
		return p.send(r)
	case "poll":
		return p.poll(r)
	case "list_offsets":
		return p.listOffsets(r)
	}
	return failed(fmt.Errorf("%s is nothing that streams of NATS have", r.F))
}

func (p *program) open(r request) answer {
	if r.Protocol != protocol {
		return failed(fmt.Errorf("protocol %d is not known to this program, which knows %d", r.Protocol, protocol))
	}
	if r.Acks != "all" {
		return failed(fmt.Errorf("acks: %q: JetStream acknowledges for all of a majority; acks must be all", r.Acks))
	}
	p.timeout = 2 * time.Second
	for key, text := range r.Settings {
		if key != "timeout" {
			return failed(fmt.Errorf("settings: %q is not known; timeout is", key))
		}
		var err error
		if p.timeout, err = time.ParseDuration(text); err != nil || p.timeout <= 0 {
			return failed(fmt.Errorf("settings: timeout: %q is no time, such as 2s", text))
		}
	}
	if err := p.connect(r.Servers); err != nil {
		return failed(err)
	}
	return answer{"type": "ok", "client": "nats.go " + nats.Version}
}

// connect connects to one of the servers. One that is paused does not answer: two pings without an answer lead to
// another one. Nothing is kept for a reconnection.
func (p *program) connect(servers []string) (err error) {
	urls := make([]string, len(servers))
	for i, one := range servers {
		urls[i] = "nats://" + one
	}
	p.conn, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second))
	if err != nil {
		return err
	}
	p.js, err = jetstream.New(p.conn)
	return err
}

func (p *program) send(r request) answer {
	content := strconv.FormatInt(r.Value, 10)
	if missing := r.Size - len(content); missing > 0 {
		content += strings.Repeat(" ", missing)
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	reply, err := p.conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: r.Topic, Data: []byte(content)})
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return failed(errors.New("not connected"))
	}
	seq, reason := sequence(reply, err)
	if reason != "" {
		return answer{"type": "info", "error": reason}
	}
	return answer{"type": "ok", "offset": seq}
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

func (p *program) poll(r request) answer {
	one := p.reader(r.Topic)
	one.Lock()
	defer one.Unlock()
	records, err := p.read(one, r)
	if err != nil {
		one.consumer = nil
		time.Sleep(afterFailure)
		return failed(err)
	}
	return answer{"type": "ok", "records": records}
}

func (p *program) reader(topic string) *reader {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.readers[topic] == nil {
		p.readers[topic] = &reader{}
	}
	return p.readers[topic]
}

// read returns the records from the position on, as far as they are there, or the next one if it comes in time.
func (p *program) read(one *reader, r request) ([][2]int64, error) {
	position := max(r.Position, 1)
	if one.consumer == nil || one.next != position {
		if err := p.begin(one, r.Topic, position); err != nil {
			return nil, err
		}
	}
	batch, err := one.consumer.FetchNoWait(r.Most)
	if err != nil {
		return nil, err
	}
	records, err := one.collect(batch, 0)
	if err != nil || len(records) > 0 || one.consumer == nil {
		return records, err
	}
	wait := time.Duration(r.WaitMS) * time.Millisecond
	if batch, err = one.consumer.Fetch(1, jetstream.FetchMaxWait(wait)); err != nil {
		return nil, err
	}
	return one.collect(batch, wait)
}

func (p *program) begin(one *reader, topic string, position uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	consumer, err := p.js.CreateConsumer(ctx, topic, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       position,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: inactive,
	})
	one.consumer, one.next, one.delivered = consumer, position, 0
	return err
}

// collect returns what a fetch has delivered, up to the first message that is missing. A fetch that ends without any
// answer of the server is an error: the consumer may be on a server that is paused.
func (one *reader) collect(batch jetstream.MessageBatch, wait time.Duration) ([][2]int64, error) {
	records, begun := [][2]int64{}, time.Now()
	for message := range batch.Messages() {
		meta, err := message.Metadata()
		if err != nil {
			return records, err
		}
		if one.consumer == nil || meta.Sequence.Consumer != one.delivered+1 {
			one.consumer = nil
			continue
		}
		one.delivered, one.next = meta.Sequence.Consumer, meta.Sequence.Stream+1
		records = append(records, [2]int64{int64(meta.Sequence.Stream), valueOf(message.Data())})
	}
	if len(records) > 0 {
		if batch.Error() != nil {
			one.consumer = nil
		}
		return records, nil
	}
	if err := batch.Error(); err != nil {
		return nil, err
	}
	if time.Since(begun) > wait+silence {
		return nil, errors.New("no answer to a fetch")
	}
	return records, nil
}

// valueOf returns the value in a record; -1 if it is none of ours.
func valueOf(content []byte) int64 {
	value, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return -1
	}
	return value
}

func (p *program) listOffsets(r request) answer {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	stream, err := p.js.Stream(ctx, r.Topic)
	if err != nil {
		return failed(err)
	}
	state := stream.CachedInfo().State
	return answer{"type": "ok", "log_start": state.FirstSeq, "high_watermark": state.LastSeq + 1}
}

func failed(err error) answer {
	return answer{"type": "fail", "error": err.Error()}
}

func (p *program) answer(r request, what answer) {
	what["id"] = r.ID
	p.output.Lock()
	defer p.output.Unlock()
	if err := p.encoder.Encode(what); err != nil {
		os.Exit(1) // the reader of the answers has ended
	}
}
