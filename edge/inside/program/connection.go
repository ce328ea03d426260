package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A frame is the length of its payload (4 bytes, big endian), its type, its stream (4 bytes) and the payload.
const (
	frameHello  = 0
	frameCall   = 1
	frameAnswer = 2
	frameError  = 3
	frameData   = 4
	frameEnd    = 5
	frameCredit = 6
	frameCancel = 7
	framePing   = 8
)

const (
	protocolVersion = 1
	headBytes       = 9
	// Of a call, which can have long arguments.
	mostPayload = 1 << 20
	mostData    = 64 << 10
	mostStreams = 256
	// How many bytes of data a side may send on a new stream.
	firstCredit = 512 << 10
	// A connection whose edge has been silent for longer is cut. The edge sends a ping every 15 s.
	mostSilence = 60 * time.Second
)

var errGone = errors.New("the caller has given up")

// connection is one edge's. It carries many calls at once, each in a stream.
type connection struct {
	conn  net.Conn
	table *processes

	writing sync.Mutex

	mu      sync.Mutex
	streams map[uint32]*stream
	calls   sync.WaitGroup
}

func newConnection(conn net.Conn, table *processes) *connection {
	return &connection{conn: conn, table: table, streams: map[uint32]*stream{}}
}

// serve reads frames until the connection ends, and then gives up all calls.
func (c *connection) serve() {
	defer func() {
		c.conn.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.streams {
			s.giveUp()
		}
	}()
	hello, _ := json.Marshal(map[string]int{"version": protocolVersion})
	if c.send(frameHello, 0, hello) != nil {
		return
	}
	reader := bufio.NewReaderSize(c.conn, mostData+headBytes)
	var head [headBytes]byte
	for {
		c.conn.SetReadDeadline(time.Now().Add(mostSilence))
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(head[:4])
		if size > mostPayload {
			return
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(reader, payload); err != nil {
			return
		}
		if c.take(head[4], binary.BigEndian.Uint32(head[5:]), payload) != nil {
			return
		}
	}
}

func (c *connection) take(kind byte, id uint32, payload []byte) error {
	switch kind {
	case framePing:
		return c.send(framePing, 0, nil)
	case frameCall:
		return c.open(id, payload)
	}
	c.mu.Lock()
	s := c.streams[id]
	c.mu.Unlock()
	switch kind {
	case frameData, frameEnd, frameCredit, frameCancel:
	default:
		return fmt.Errorf("unknown type %d", kind)
	}
	if s == nil {
		// The call has ended, and the edge did not know yet.
		return nil
	}
	switch kind {
	case frameData:
		return s.takeData(payload)
	case frameEnd:
		s.takeEnd()
	case frameCredit:
		if len(payload) != 4 {
			return errors.New("a credit has four bytes")
		}
		s.takeCredit(int64(binary.BigEndian.Uint32(payload)))
	case frameCancel:
		s.giveUp()
	}
	return nil
}

func (c *connection) open(id uint32, payload []byte) error {
	s := newStream(c, id)
	c.mu.Lock()
	_, isTaken := c.streams[id]
	isFull := len(c.streams) >= mostStreams
	if !isTaken && !isFull {
		c.streams[id] = s
	}
	c.mu.Unlock()
	if isTaken {
		return fmt.Errorf("stream %d is open already", id)
	}
	if isFull {
		return c.sendError(id, &failure{"busy", fmt.Sprintf("there are %d calls at once already", mostStreams)})
	}
	c.calls.Add(1)
	go func() {
		defer c.calls.Done()
		err := answerCall(s, payload, c.table)
		c.mu.Lock()
		delete(c.streams, id)
		c.mu.Unlock()
		isGivenUp := s.ctx.Err() != nil
		s.giveUp()
		if isGivenUp {
			return
		}
		if err != nil {
			c.sendError(id, asFailure(err))
		} else {
			c.send(frameEnd, id, nil)
		}
	}()
	return nil
}

func (c *connection) sendError(id uint32, failed *failure) error {
	text, err := json.Marshal(failed)
	if err != nil {
		return err
	}
	return c.send(frameError, id, text)
}

func (c *connection) send(kind byte, id uint32, payload []byte) error {
	var head [headBytes]byte
	binary.BigEndian.PutUint32(head[:4], uint32(len(payload)))
	head[4] = kind
	binary.BigEndian.PutUint32(head[5:], id)
	c.writing.Lock()
	defer c.writing.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(mostSilence))
	_, err := (&net.Buffers{head[:], payload}).WriteTo(c.conn)
	if err != nil {
		c.conn.Close()
	}
	return err
}

// stream is one call: an answer, and bytes in both directions.
type stream struct {
	connection *connection
	id         uint32
	// Done once the caller has given up, or the call is over.
	ctx    context.Context
	giveUp context.CancelFunc

	mu      sync.Mutex
	changed *sync.Cond
	// What has come and has not been read.
	waiting [][]byte
	// How much may still come, and how much of what was read the edge does not know of yet.
	expected, unsaid int64
	hasEnded         bool
	// How much may be sent.
	credit int64
}

func newStream(c *connection, id uint32) *stream {
	s := &stream{connection: c, id: id, expected: firstCredit, credit: firstCredit}
	s.ctx, s.giveUp = context.WithCancel(context.Background())
	s.changed = sync.NewCond(&s.mu)
	context.AfterFunc(s.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	return s
}

func (s *stream) takeData(payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected -= int64(len(payload))
	if s.expected < 0 {
		return errors.New("more data than was allowed")
	}
	if s.ctx.Err() == nil && len(payload) > 0 {
		s.waiting = append(s.waiting, payload)
		s.changed.Broadcast()
	}
	return nil
}

func (s *stream) takeEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasEnded = true
	s.changed.Broadcast()
}

func (s *stream) takeCredit(more int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit += more
	s.changed.Broadcast()
}

// Read returns the data of the caller, and io.EOF after its end.
func (s *stream) Read(into []byte) (int, error) {
	s.mu.Lock()
	for len(s.waiting) == 0 && !s.hasEnded && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return 0, errGone
	}
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return 0, io.EOF
	}
	count := copy(into, s.waiting[0])
	if count == len(s.waiting[0]) {
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
	} else {
		s.waiting[0] = s.waiting[0][count:]
	}
	s.unsaid += int64(count)
	more := int64(0)
	if s.unsaid >= firstCredit/4 && !s.hasEnded {
		more = s.unsaid
		s.expected += more
		s.unsaid = 0
	}
	s.mu.Unlock()
	if more > 0 {
		var payload [4]byte
		binary.BigEndian.PutUint32(payload[:], uint32(more))
		if err := s.connection.send(frameCredit, s.id, payload[:]); err != nil {
			return count, err
		}
	}
	return count, nil
}

// waitForEnd waits until the caller has sent the end of its data. It is false if the caller has gone before.
func (s *stream) waitForEnd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.hasEnded && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	return s.hasEnded
}

// Write sends data as fast as the caller takes it.
func (s *stream) Write(data []byte) (int, error) {
	for sent := 0; sent < len(data); {
		size := min(len(data)-sent, mostData)
		if err := s.message(data[sent : sent+size]); err != nil {
			return sent, err
		}
		sent += size
	}
	return len(data), nil
}

// message sends data of at most mostData bytes in one frame.
func (s *stream) message(data []byte) error {
	s.mu.Lock()
	for s.credit < int64(len(data)) && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	s.credit -= int64(len(data))
	s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errGone
	}
	return s.connection.send(frameData, s.id, data)
}

func (s *stream) context() context.Context { return s.ctx }

func (s *stream) begin() error { return s.answer(struct{}{}) }

// answer sends the call's result. What has no limit comes as data.
func (s *stream) answer(result any) error {
	text, err := encode(result)
	if err != nil {
		return err
	}
	if len(text) > mostPayload {
		return &failure{"tooLarge", "the answer is too long"}
	}
	return s.connection.send(frameAnswer, s.id, text)
}
