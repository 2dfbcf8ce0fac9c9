/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether our own data reactors run, for the heartbeats of other members. Reactor of the peers.
 *
 * Each ping posts a probe to every data reactor, which takes the probe in its next turn: an idle
 * reactor wakes up, a loaded reactor takes it between two batches, a reactor stuck in a callback or
 * in the kernel does not. The wait of a probe is counted in small steps in which this thread ran
 * itself: when the whole process was stopped or got no CPU, that time does not count against the
 * reactor.
 */
#include "cluster/peers_private.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

#define COUNT_EVERY_NS (10 * NS_PER_MS)
#define COUNT_MAX_NS   (2 * COUNT_EVERY_NS) /* limit of one step */

/* On the data reactor. */
static void probe_taken(struct reactor_msg *msg)
{
	struct peer_probe *probe = container_of(msg, struct peer_probe, msg);

	atomic_store_explicit(&probe->is_out, false, memory_order_release);
}

static bool probe_is_out(const struct peer_probe *probe)
{
	return atomic_load_explicit(&probe->is_out, memory_order_acquire);
}

bool peer_probes_are_out(const struct peers *peers)
{
	for (unsigned i = 0; i < peers->probes.count; i++) {
		if (probe_is_out(&peers->probes.probes[i]))
			return true;
	}
	return false;
}

static void probes_count(struct peers *peers)
{
	struct peer_probes *probes = &peers->probes;
	uint64_t now_ns = reactor_now_ns(peers->reactor);
	uint64_t passed_ns = now_ns - probes->counted_ns;

	probes->counted_ns = now_ns;
	if (passed_ns > COUNT_MAX_NS)
		passed_ns = COUNT_MAX_NS;
	for (unsigned i = 0; i < probes->count; i++) {
		struct peer_probe *probe = &probes->probes[i];

		probe->waited_ns = probe_is_out(probe) ? probe->waited_ns + passed_ns : 0;
	}
}

static void probes_due(struct reactor_timer *timer)
{
	struct peers *peers = container_of(timer, struct peers, probes.timer);

	probes_count(peers);
	if (peer_probes_are_out(peers))
		reactor_timer_arm(timer, reactor_now_ns(peers->reactor) + COUNT_EVERY_NS);
	else
		peers_maybe_gone(peers);
}

void peer_probes_ask(struct peers *peers, struct peer_pulse *ret_pulse)
{
	struct peer_probes *probes = &peers->probes;
	uint64_t worst_ns = 0;

	*ret_pulse = (struct peer_pulse){0};
	if (probes->timer.armed)
		probes_count(peers);
	else
		probes->counted_ns = reactor_now_ns(peers->reactor);
	for (unsigned i = 0; i < probes->count; i++) {
		struct peer_probe *probe = &probes->probes[i];

		if (probe_is_out(probe)) {
			if (probe->waited_ns > worst_ns)
				ret_pulse->reactor = i;
			worst_ns = probe->waited_ns > worst_ns ? probe->waited_ns : worst_ns;
			continue;
		}
		probe->waited_ns = 0;
		atomic_store_explicit(&probe->is_out, true, memory_order_relaxed);
		reactor_post(probe->reactor, &probe->msg, probe_taken);
	}
	ret_pulse->stuck_ms = (uint32_t)(worst_ns / NS_PER_MS);
	if (!probes->timer.armed)
		reactor_timer_arm(&probes->timer, probes->counted_ns + COUNT_EVERY_NS);
}

int peer_probes_init(struct peers *peers, struct reactor *const *reactors, unsigned count)
{
	peers->probes.probes = calloc(count, sizeof(*peers->probes.probes));
	if (!peers->probes.probes)
		return -ENOMEM;
	peers->probes.count = count;
	for (unsigned i = 0; i < count; i++)
		peers->probes.probes[i].reactor = reactors[i];
	reactor_timer_init(peers->reactor, &peers->probes.timer, probes_due);
	return 0;
}

void peer_probes_free(struct peers *peers)
{
	free(peers->probes.probes);
	peers->probes.probes = NULL;
}
