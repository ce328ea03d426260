package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Some periods of 100 ms, in each of which the processors' limit is applied.
const usageWindow = 500 * time.Millisecond

// usage is what the container uses now.
type usage struct {
	// Processors that it may use, such as 0.5, and how much of their time it has used: at most 100.
	Cpus       float64 `json:"cpus"`
	CpuPercent float64 `json:"cpuPercent"`
	// Without files that the kernel caches and can drop, which are cacheBytes.
	MemoryBytes      uint64 `json:"memoryBytes"`
	CacheBytes       uint64 `json:"cacheBytes"`
	MemoryLimitBytes uint64 `json:"memoryLimitBytes"`
	// Of the file system of its root, which is the node's.
	DiskBytes      uint64 `json:"diskBytes"`
	DiskTotalBytes uint64 `json:"diskTotalBytes"`
}

func readUsage(ctx context.Context) (*usage, error) {
	group := &controlGroup{}
	_, err := os.Stat(filepath.Join(controlGroups, "cgroup.controllers"))
	group.isFirst = errors.Is(err, fs.ErrNotExist)

	before, from := group.processorSeconds(), time.Now()
	select {
	case <-time.After(usageWindow):
	case <-ctx.Done():
		return nil, errGone
	}
	used, elapsed := group.processorSeconds()-before, time.Since(from).Seconds()

	found := &usage{Cpus: min(group.processors(), float64(runtime.NumCPU()))}
	// The window does not begin with a period, so that a busy container can have more of it.
	found.CpuPercent = min(100, math.Round(used/elapsed/found.Cpus*10_000)/100)
	memory, cache, limit := group.memory()
	found.MemoryBytes, found.CacheBytes = uint64(max(0, memory-cache)), uint64(cache)
	if group.failed != nil {
		return nil, &failure{"noUsage", fmt.Sprintf("its container does not show what it uses: %v", group.failed)}
	}
	var machine syscall.Sysinfo_t
	if err := syscall.Sysinfo(&machine); err != nil {
		return nil, err
	}
	found.MemoryLimitBytes = uint64(min(limit, float64(uint64(machine.Totalram)*uint64(machine.Unit))))
	var disk syscall.Statfs_t
	if err := syscall.Statfs("/", &disk); err != nil {
		return nil, err
	}
	found.DiskTotalBytes = disk.Blocks * uint64(disk.Bsize)
	found.DiskBytes = (disk.Blocks - disk.Bavail) * uint64(disk.Bsize)
	return found, nil
}

// Where a container sees its own control group.
const controlGroups = "/sys/fs/cgroup"

// controlGroup is the container's, and why it could not be read. https://docs.kernel.org/admin-guide/cgroup-v2.html
type controlGroup struct {
	// Whether it is of the first version, which has a folder for each controller.
	isFirst bool
	failed  error
}

func (g *controlGroup) processorSeconds() float64 {
	if g.isFirst {
		return g.number("cpuacct/cpuacct.usage", "") / 1e9
	}
	return g.number("cpu.stat", "usage_usec") / 1e6
}

// processors is infinite without a limit.
func (g *controlGroup) processors() float64 {
	if g.isFirst {
		quota, period := g.number("cpu/cpu.cfs_quota_us", ""), g.number("cpu/cpu.cfs_period_us", "")
		if quota < 0 {
			return math.Inf(1)
		}
		return quota / period
	}
	// Such as "max 100000".
	quota, period, _ := strings.Cut(g.text("cpu.max"), " ")
	return g.parse(quota) / g.parse(period)
}

// memory returns all that is used, what of it the kernel can drop, and the limit, which may be infinite. Shared memory
// is among the cached files, and cannot be dropped.
func (g *controlGroup) memory() (used, cache, limit float64) {
	if g.isFirst {
		cache = g.number("memory/memory.stat", "total_cache") - g.number("memory/memory.stat", "total_shmem")
		return g.number("memory/memory.usage_in_bytes", ""), max(0, cache), g.number("memory/memory.limit_in_bytes", "")
	}
	cache = g.number("memory.stat", "file") - g.number("memory.stat", "shmem")
	return g.number("memory.current", ""), max(0, cache), g.number("memory.max", "")
}

// number reads the number of a file, or of its line that begins with a name.
func (g *controlGroup) number(file, name string) float64 {
	text := g.text(file)
	if name == "" {
		return g.parse(text)
	}
	words := strings.Fields(text)
	at := slices.Index(words, name)
	if at < 0 || at+1 == len(words) {
		g.fail(fmt.Errorf("%s has no %s", file, name))
		return 0
	}
	return g.parse(words[at+1])
}

func (g *controlGroup) text(file string) string {
	text, err := os.ReadFile(filepath.Join(controlGroups, file))
	if err != nil {
		g.fail(err)
	}
	return strings.TrimSpace(string(text))
}

func (g *controlGroup) parse(text string) float64 {
	if text == "max" {
		return math.Inf(1)
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		g.fail(err)
	}
	return number
}

// fail keeps the first error.
func (g *controlGroup) fail(err error) {
	if g.failed == nil {
		g.failed = err
	}
}
