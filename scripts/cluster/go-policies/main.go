// The network policies of one local cluster: judges the packets that the machine's rules queue, by the engine of
// sigs.k8s.io/kube-network-policies. Why it is a program of ours:
// docs/decisions/local-cluster.md#a-program-of-ours-enforces-network-policies.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/florianl/go-nfqueue/v2"
	nfnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/dataplane"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

// How long connections are left alone after they were looked at. Changes of pods come in bursts, and a look reads every
// connection that the machine tracks.
const lookPause = 500 * time.Millisecond

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file of the cluster")
	node := flag.String("node", "", "name of the cluster's only node")
	nodeAddress := flag.String("node-address", "", "address of the node in the pod network")
	podNetwork := flag.String("pod-network", "", "addresses that pods have, such as 10.231.7.0/24")
	queue := flag.Uint("queue", 0, "number of the queue that packets are taken from")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()

	pods, err := netip.ParsePrefix(*podNetwork)
	if err != nil {
		return fmt.Errorf("cannot read --pod-network: %w", err)
	}
	own, err := netip.ParseAddr(*nodeAddress)
	if err != nil {
		return fmt.Errorf("cannot read --node-address: %w", err)
	}
	engine, err := startEngine(ctx, *kubeconfig, *node, unknownPods{pods, own})
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	engine.SetDataplaneSyncCallbacks(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return engine.Ready(), nil
	}); err != nil {
		return fmt.Errorf("cannot read the cluster's pods, namespaces and policies: %w", err)
	}
	judged, err := judgeQueue(ctx, uint16(*queue), engine)
	if err != nil {
		return err
	}
	defer judged.Close()
	fmt.Printf("judging what is queued to %d\n", *queue)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			if err := endForbidden(ctx, pods, engine); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lookPause):
			}
		}
	}
}

func startEngine(ctx context.Context, kubeconfig, node string, first api.PolicyEvaluator) (*networkpolicy.PolicyEngine, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read --kubeconfig: %w", err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	namespaces := factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	pods := factory.Core().V1().Pods()
	if err := pods.Informer().SetTransform(withoutAddressOfEnded); err != nil {
		return nil, err
	}
	resolver, err := podinfo.NewInformerResolver(pods.Informer())
	if err != nil {
		return nil, err
	}
	provider := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{resolver})
	standard := networkpolicy.NewStandardNetworkPolicy(node, namespaces, pods, policies)
	factory.Start(ctx.Done())
	return networkpolicy.NewPolicyEngine(provider, []api.PolicyEvaluator{first, standard}), nil
}

// The address of a pod that has ended may be another's by now.
func withoutAddressOfEnded(object any) (any, error) {
	if pod, ok := object.(*v1.Pod); ok {
		pod.ManagedFields = nil
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			pod.Status.PodIP, pod.Status.PodIPs = "", nil
		}
	}
	return object, nil
}

// unknownPods denies traffic from and to an address of the pod network whose pod the API server does not know yet. The
// kubelet writes a pod's address about a second after its first container has started, and until then no policy would
// select it.
type unknownPods struct {
	network netip.Prefix
	node    netip.Addr
}

var _ api.PolicyEvaluator = unknownPods{}

func (u unknownPods) Name() string                                           { return "UnknownPods" }
func (u unknownPods) Ready() bool                                            { return true }
func (u unknownPods) SetDataplaneSyncCallback(_ api.SyncFunc)                {}
func (u unknownPods) ManagedIPs(context.Context) ([]netip.Addr, bool, error) { return nil, true, nil }

func (u unknownPods) EvaluateEgress(_ context.Context, packet *network.Packet, source, _ *api.PodInfo) (api.Verdict, error) {
	return u.verdict(packet.SrcIP, source), nil
}

func (u unknownPods) EvaluateIngress(_ context.Context, packet *network.Packet, _, destination *api.PodInfo) (api.Verdict, error) {
	return u.verdict(packet.DstIP, destination), nil
}

func (u unknownPods) verdict(ip net.IP, pod *api.PodInfo) api.Verdict {
	address, _ := netip.AddrFromSlice(ip)
	address = address.Unmap()
	if pod == nil && address != u.node && u.network.Contains(address) {
		return api.VerdictDeny
	}
	return api.VerdictNext
}

func judgeQueue(ctx context.Context, number uint16, engine *networkpolicy.PolicyEngine) (*nfqueue.Nfqueue, error) {
	queue, err := nfqueue.Open(&nfqueue.Config{
		NfQueue:      number,
		MaxPacketLen: 128, // headers
		MaxQueueLen:  4096,
		Copymode:     nfqueue.NfQnlCopyPacket,
		// Without it the kernel would cut large packets into small ones first.
		Flags:        nfqueue.NfQaCfgFlagGSO,
		WriteTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open queue %d: %w", number, err)
	}
	judge := func(attribute nfqueue.Attribute) int {
		verdict := nfqueue.NfDrop
		if attribute.Payload != nil && isAllowed(ctx, engine, *attribute.Payload) {
			verdict = nfqueue.NfAccept
		}
		if err := queue.SetVerdict(*attribute.PacketID, verdict); err != nil {
			fmt.Fprintf(os.Stderr, "cannot answer for packet %d: %v\n", *attribute.PacketID, err)
		}
		return 0
	}
	failed := func(err error) int {
		var operation *nfnetlink.OpError
		if !errors.As(err, &operation) || !(operation.Timeout() || operation.Temporary()) {
			fmt.Fprintf(os.Stderr, "cannot take from queue %d: %v\n", number, err)
		}
		return 0
	}
	if err := queue.RegisterWithErrorFunc(ctx, judge, failed); err != nil {
		queue.Close()
		return nil, fmt.Errorf("cannot take from queue %d: %w", number, err)
	}
	return queue, nil
}

func isAllowed(ctx context.Context, engine *networkpolicy.PolicyEngine, payload []byte) bool {
	packet, err := network.ParsePacket(payload)
	if err != nil {
		return false
	}
	allowed, err := engine.EvaluatePacket(ctx, &packet)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot judge a packet: %v\n", err)
	}
	return allowed && err == nil
}

// endForbidden forgets connections of pods that the policies of now forbid; the rules drop what is left of them. Those that
// the node itself has opened are not judged, as their first packets were not.
func endForbidden(ctx context.Context, pods netip.Prefix, engine *networkpolicy.PolicyEngine) error {
	local, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("cannot list the machine's addresses: %w", err)
	}
	_, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, forbidden{ctx, pods, local, engine})
	if err != nil {
		return fmt.Errorf("cannot end the connections that policies forbid: %w", err)
	}
	return nil
}

type forbidden struct {
	ctx    context.Context
	pods   netip.Prefix
	local  []net.Addr
	engine *networkpolicy.PolicyEngine
}

func (f forbidden) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	switch flow.Forward.Protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP:
	default:
		return false
	}
	if !f.isPod(flow.Forward.SrcIP) && !f.isPod(flow.Reverse.SrcIP) || f.isLocal(flow.Forward.SrcIP) {
		return false
	}
	packet := dataplane.PacketFromFlow(flow)
	if packet == nil {
		return false
	}
	allowed, err := f.engine.EvaluatePacket(f.ctx, packet)
	return !allowed || err != nil
}

func (f forbidden) isPod(ip net.IP) bool {
	address, ok := netip.AddrFromSlice(ip)
	return ok && f.pods.Contains(address.Unmap())
}

func (f forbidden) isLocal(ip net.IP) bool {
	for _, address := range f.local {
		if prefix, ok := address.(*net.IPNet); ok && prefix.IP.Equal(ip) {
			return true
		}
	}
	return false
}
