package main

import "strings"

const (
	// So many changes, or bytes of their names, are held before they are sent.
	mostChanges     = 4096
	mostChangeBytes = 1 << 20
)

// place is a name in a folder. Its path is that of the folder at the time when it is reported.
type place struct {
	in   *folder
	name string
}

// change is what has become of a place since the caller last heard of it.
type change struct {
	place
	// Whether the caller knows that something is there, and whether something is there now.
	wasThere, isThere bool
	// It came by a rename, which may have replaced something that the caller knows.
	mayHaveReplaced bool
	// The folder that the caller knows there is another one now, or none.
	lostFolder bool
	// The file that is there now was at this place before.
	origin *change
	// Where the file is now that was here.
	movedTo    *change
	isReported bool
	// Whether its content may have changed, beside its permissions and times.
	isWritten bool
	// How often it was not reported, since what the kernel has said is not what is there.
	held int
}

// leaving is the first half of a rename. Its other half follows at once, or the new place is not watched.
type leaving struct {
	*change
	origin *change
	// The folder that leaves, if it is watched, and the scan that had found it last.
	folder *folder
	scan   int
	// Whether the caller knows what leaves.
	isKnown, isOld bool
}

// changes holds what has happened until it is reported, so that many changes of a place are one.
type changes struct {
	byPlace map[place]*change
	order   []*change
	bytes   int
	leaving map[uint32]*leaving
}

func newChanges() *changes {
	return &changes{byPlace: map[place]*change{}, leaving: map[uint32]*leaving{}}
}

func (c *changes) isEmpty() bool { return len(c.order) == 0 }

func (c *changes) isFull() bool { return len(c.order) >= mostChanges || c.bytes >= mostChangeBytes }

// at returns the change of a place; a new one says whether the caller knows that something is there.
func (c *changes) at(where place, wasThere bool) *change {
	if known := c.byPlace[where]; known != nil {
		return known
	}
	one := &change{place: where, wasThere: wasThere, isThere: wasThere}
	c.hold(one)
	return one
}

func (c *changes) hold(one *change) {
	c.byPlace[one.place] = one
	c.order = append(c.order, one)
	c.bytes += len(one.name)
}

func (c *changes) created(where place, wasThere bool) {
	one := c.at(where, wasThere)
	one.isThere, one.isWritten, one.origin = true, true, nil
}

// replaced is what created is for what came by a rename.
func (c *changes) replaced(where place, isFolder bool) *change {
	isFirst := c.byPlace[where] == nil
	one := c.at(where, false)
	one.isThere, one.isWritten, one.origin = true, true, nil
	one.mayHaveReplaced = one.mayHaveReplaced || isFirst
	one.lostFolder = one.lostFolder || isFolder
	return one
}

func (c *changes) changed(where place, isWritten bool) {
	one := c.at(where, true)
	one.isWritten = one.isWritten || isWritten
}

func (c *changes) removed(where place, isFolder bool) {
	one := c.at(where, true)
	one.isThere, one.origin, one.lostFolder = false, nil, one.lostFolder || isFolder
}

func (c *changes) movedFrom(where place, cookie uint32, left *folder, isFolder bool) {
	one := c.at(where, true)
	origin := one.origin
	isKnown := one.wasThere && !one.lostFolder
	if origin == nil && isKnown {
		origin = one
	}
	c.leaving[cookie] = &leaving{change: one, origin: origin, folder: left, isKnown: isKnown}
	if left != nil {
		c.leaving[cookie].scan = left.scan
	}
	one.isThere, one.origin, one.lostFolder = false, nil, one.lostFolder || isFolder
}

// arrive finds the first half of a rename, if it was watched.
func (c *changes) arrive(cookie uint32) *leaving {
	left := c.leaving[cookie]
	delete(c.leaving, cookie)
	return left
}

// movedTo is the second half of a file's rename.
func (c *changes) movedTo(where place, left *leaving) {
	c.replaced(where, false).origin = left.origin
}

func anyChange(*change) bool { return true }

// discard drops what is below a path.
func (c *changes) discard(path string, isMeant func(*change) bool) {
	for _, one := range c.order {
		if isMeant(one) && strings.HasPrefix(one.in.pathOf(one.name), path+"/") {
			delete(c.byPlace, one.place)
			one.wasThere, one.isThere, one.mayHaveReplaced = false, false, false
		}
	}
}

// take returns what is to be reported, in its order, and what has left. What may still come elsewhere stays.
func (c *changes) take() (reported []*change, left []*leaving) {
	isLeaving := map[*change]bool{}
	for cookie, one := range c.leaving {
		if one.isOld {
			delete(c.leaving, cookie)
			left = append(left, one)
		} else if !one.isThere {
			isLeaving[one.change] = true
		}
		one.isOld = true
	}
	taken := c.order
	c.byPlace, c.order, c.bytes = map[place]*change{}, nil, 0
	for _, one := range taken {
		if isLeaving[one] {
			c.hold(one)
			continue
		}
		reported = append(reported, one)
		// If something is at the old place, as after two files have changed their places, a move is not reported.
		if from := one.origin; from != nil && one.isThere && !from.isThere && !from.isReported && from.movedTo == nil {
			from.movedTo = one
		}
	}
	for _, one := range reported {
		one.isReported = true
	}
	return reported, left
}

// kind says in a word what is to be reported; nothing if the caller need not know.
func (one *change) kind() string {
	switch {
	case one.isThere && one.origin != nil && one.origin.movedTo == one:
		return "moved"
	case one.isThere && one.wasThere:
		return "changed"
	case one.isThere:
		return "created"
	case (one.wasThere || one.mayHaveReplaced) && one.movedTo == nil:
		return "removed"
	}
	return ""
}
