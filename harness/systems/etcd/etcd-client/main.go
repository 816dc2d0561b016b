// A client program for etcd, with its Go client. docs/client-programs.md explains the lines.
//
// A register is a key, with the revision of its last change as version. A compare-and-set is a transaction: it compares
// the key's value, and in the same step puts the new value or gets the one that is there.
//
// A topic-partition is a key as well. A send puts a value, and its offset is the revision. A poll is a watch of the key
// from its position on, which must deliver every revision of it, in order.
//
// Each write is sent once: etcd's client repeats one only if it was never sent. Whatever has no answer or an error ends
// as `info`, of reads as `fail`.
//
// Settings: timeout (for an answer; 2s), and reads: linearizable (as etcd's default is), or serializable, which each
// member answers from its own copy, however old that is.
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

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	protocol     = 1
	afterFailure = 100 * time.Millisecond // so that polls that fail at once do not spin
)

type request struct {
	ID        int64             `json:"id"`
	F         string            `json:"f"`
	Protocol  int               `json:"protocol"`
	Servers   []string          `json:"servers"`
	Acks      string            `json:"acks"`
	Settings  map[string]string `json:"settings"`
	Topic     string            `json:"topic"`
	Partition int               `json:"partition"`
	Value     int64             `json:"value"`
	Size      int               `json:"size"`
	Position  int64             `json:"position"`
	WaitMS    int64             `json:"wait_ms"`
	Register  string            `json:"register"`
	Expected  *int64            `json:"expected"`
}

type answer map[string]any

type program struct {
	output  sync.Mutex
	encoder *json.Encoder

	client  *clientv3.Client
	timeout time.Duration
	reads   []clientv3.OpOption

	lock    sync.Mutex
	readers map[string]*reader
}

// reader watches one key. next is the revision from which its watch goes on.
type reader struct {
	sync.Mutex
	watch clientv3.WatchChan
	end   context.CancelFunc
	next  int64
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
	case "read":
		return p.read(r)
	case "write":
		return p.write(r)
	case "cas":
		return p.compareAndSet(r)
	case "send":
		return p.send(r)
	case "poll":
		return p.poll(r)
	}
	return failed(fmt.Errorf("%s is nothing that keys of etcd have", r.F))
}

func (p *program) open(r request) answer {
	if r.Protocol != protocol {
		return failed(fmt.Errorf("protocol %d is not known to this program, which knows %d", r.Protocol, protocol))
	}
	if r.Acks != "all" {
		return failed(fmt.Errorf("acks: %q: etcd acknowledges what a majority has; acks must be all", r.Acks))
	}
	if err := p.set(r.Settings); err != nil {
		return failed(err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            r.Servers,
		DialTimeout:          2 * time.Second,
		DialKeepAliveTime:    10 * time.Second, // less is not permitted
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return failed(err)
	}
	p.client = client
	return answer{"type": "ok", "client": "etcd client v3 " + version.Version}
}

func (p *program) set(settings map[string]string) (err error) {
	p.timeout = 2 * time.Second
	for key, text := range settings {
		switch {
		case key == "timeout":
			if p.timeout, err = time.ParseDuration(text); err != nil || p.timeout <= 0 {
				return fmt.Errorf("settings: timeout: %q is no time, such as 2s", text)
			}
		case key == "reads" && text == "serializable":
			p.reads = append(p.reads, clientv3.WithSerializable())
		case key == "reads" && text == "linearizable":
		case key == "reads":
			return fmt.Errorf("settings: reads: %q is neither linearizable nor serializable", text)
		default:
			return fmt.Errorf("settings: %q is not known; timeout and reads are", key)
		}
	}
	return nil
}

func (p *program) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), p.timeout)
}

func (p *program) read(r request) answer {
	ctx, cancel := p.context()
	defer cancel()
	found, err := p.client.Get(ctx, r.Register, p.reads...)
	if err != nil {
		return failed(err)
	}
	if len(found.Kvs) == 0 {
		return answer{"type": "ok", "found": nil}
	}
	return answer{"type": "ok", "found": valueOf(found.Kvs[0].Value), "version": found.Kvs[0].ModRevision}
}

func (p *program) write(r request) answer {
	ctx, cancel := p.context()
	defer cancel()
	put, err := p.client.Put(ctx, r.Register, text(r))
	if err != nil {
		return unknown(err)
	}
	return answer{"type": "ok", "version": put.Header.Revision}
}

func (p *program) compareAndSet(r request) answer {
	ctx, cancel := p.context()
	defer cancel()
	expected := clientv3.Compare(clientv3.CreateRevision(r.Register), "=", 0)
	if r.Expected != nil {
		expected = clientv3.Compare(clientv3.Value(r.Register), "=", strconv.FormatInt(*r.Expected, 10))
	}
	done, err := p.client.Txn(ctx).If(expected).Then(clientv3.OpPut(r.Register, text(r))).
		Else(clientv3.OpGet(r.Register)).Commit()
	if err != nil {
		return unknown(err)
	}
	if done.Succeeded {
		return answer{"type": "ok", "version": done.Header.Revision}
	}
	refusal := answer{"type": "fail", "refused": true, "error": "refused", "found": nil}
	if there := done.Responses[0].GetResponseRange().Kvs; len(there) > 0 {
		refusal["found"], refusal["version"] = valueOf(there[0].Value), there[0].ModRevision
	}
	return refusal
}

func (p *program) send(r request) answer {
	ctx, cancel := p.context()
	defer cancel()
	put, err := p.client.Put(ctx, keyOf(r), text(r))
	if err != nil {
		return unknown(err)
	}
	return answer{"type": "ok", "offset": put.Header.Revision}
}

func (p *program) poll(r request) answer {
	one := p.reader(keyOf(r))
	one.Lock()
	defer one.Unlock()
	records, err := p.watched(one, r)
	if err != nil {
		one.stop()
		time.Sleep(afterFailure)
		return failed(err)
	}
	return answer{"type": "ok", "records": records}
}

func (p *program) reader(key string) *reader {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.readers[key] == nil {
		p.readers[key] = &reader{}
	}
	return p.readers[key]
}

func (one *reader) stop() {
	if one.end != nil {
		one.end()
	}
	one.watch, one.end = nil, nil
}

// watched returns the revisions that the watch of a key has delivered from the position on, or waits for one.
func (p *program) watched(one *reader, r request) ([][2]int64, error) {
	position := max(r.Position, 1)
	if one.watch == nil || one.next != position {
		one.stop()
		var ctx context.Context
		ctx, one.end = context.WithCancel(context.Background())
		// A member without a leader ends the watch, which then goes on at another one.
		one.watch = p.client.Watch(clientv3.WithRequireLeader(ctx), keyOf(r), clientv3.WithRev(position))
		one.next = position
	}
	records := [][2]int64{}
	wait := time.After(time.Duration(r.WaitMS) * time.Millisecond)
	for {
		select {
		case found, open := <-one.watch:
			if !open {
				return nil, errors.New("the watch has ended")
			}
			if err := found.Err(); err != nil {
				return nil, err
			}
			for _, event := range found.Events {
				records = append(records, [2]int64{event.Kv.ModRevision, valueOf(event.Kv.Value)})
				one.next = event.Kv.ModRevision + 1
			}
			if len(records) > 0 {
				return records, nil
			}
		case <-wait:
			return records, nil
		}
	}
}

func keyOf(r request) string {
	return fmt.Sprintf("%s/%d", r.Topic, r.Partition)
}

// text returns the value as it is stored: decimal digits, of a record filled up with spaces.
func text(r request) string {
	content := strconv.FormatInt(r.Value, 10)
	if missing := r.Size - len(content); missing > 0 {
		content += strings.Repeat(" ", missing)
	}
	return content
}

// valueOf returns a stored value; -1 if it is none of ours.
func valueOf(content []byte) int64 {
	value, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return -1
	}
	return value
}

func failed(err error) answer {
	return answer{"type": "fail", "error": err.Error()}
}

func unknown(err error) answer {
	return answer{"type": "info", "error": err.Error()}
}

func (p *program) answer(r request, what answer) {
	what["id"] = r.ID
	p.output.Lock()
	defer p.output.Unlock()
	if err := p.encoder.Encode(what); err != nil {
		os.Exit(1) // the reader of the answers has ended
	}
}
