package main

import "sync"

// output keeps the last bytes that a process wrote, and counts all of them.
type output struct {
	mu    sync.Mutex
	bytes []byte
	// How many bytes were written before those that are kept.
	start int64
	most  int
	// Readers that must miss nothing hold the writer up: they have read so far.
	holders map[*outputReader]bool
	isOver  bool
	changed chan struct{}
}

func newOutput(most int) *output {
	return &output{most: most, holders: map[*outputReader]bool{}, changed: make(chan struct{})}
}

func (o *output) tellLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// write keeps bytes. It waits as long as a reader that holds it up has not read what they would push out.
func (o *output) write(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(data) > 0 {
		size := min(len(data), o.most)
		for o.isHeldLocked(o.end() + int64(size) - int64(o.most)) {
			changed := o.changed
			o.mu.Unlock()
			<-changed
			o.mu.Lock()
		}
		o.keepLocked(data[:size])
		data = data[size:]
		o.tellLocked()
	}
}

// isHeldLocked is true while a reader still needs bytes before an offset.
func (o *output) isHeldLocked(before int64) bool {
	for holder := range o.holders {
		if holder.at < before {
			return true
		}
	}
	return false
}

// keepLocked writes over the oldest bytes once there is no more room: a byte's place is its offset modulo most.
func (o *output) keepLocked(data []byte) {
	if room := o.most - len(o.bytes); room > 0 {
		size := min(room, len(data))
		o.bytes = append(o.bytes, data[:size]...)
		data = data[size:]
	}
	for len(data) > 0 {
		size := copy(o.bytes[o.end()%int64(o.most):], data)
		o.start += int64(size)
		data = data[size:]
	}
}

func (o *output) end() int64 { return o.start + int64(len(o.bytes)) }

// finish says that nothing follows.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isOver = true
	o.tellLocked()
}

func (o *output) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end()
}

type outputReader struct {
	output *output
	at     int64
}

// reader reads from an offset on, or from the first byte that is kept. A negative offset counts from the end.
func (o *output) reader(offset int64, holds bool) *outputReader {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset < 0 {
		offset += o.end()
	}
	r := &outputReader{output: o, at: max(o.start, min(offset, o.end()))}
	if holds {
		o.holders[r] = true
	}
	return r
}

// next copies what follows, and says at which offset that begins. With nothing there it returns a channel that is
// closed once there is; and nil for both once nothing follows.
func (r *outputReader) next(into []byte) (count int, offset int64, changed <-chan struct{}) {
	o := r.output
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.at < o.start {
		r.at = o.start
	}
	offset = r.at
	if left := o.end() - r.at; left > 0 {
		place := r.at % int64(o.most)
		count = copy(into, o.bytes[place:min(int64(len(o.bytes)), place+left)])
		r.at += int64(count)
	}
	if count > 0 {
		if o.holders[r] {
			o.tellLocked()
		}
		return count, offset, nil
	}
	if o.isOver {
		return 0, offset, nil
	}
	return 0, offset, o.changed
}

// release lets the writer go on without this reader.
func (r *outputReader) release() {
	o := r.output
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holders[r] {
		delete(o.holders, r)
		o.tellLocked()
	}
}
