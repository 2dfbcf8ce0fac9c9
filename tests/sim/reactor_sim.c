/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated reactor: clock, events, turns, timers, messages and deferred functions. Implements
 * reactor/reactor.h together with sim_sock.c (sockets), sim_net.c (network), sim_file.c (files),
 * sim_watch_fd.c (watches, pollers), sim_zc.c (zero copy) and sim_process.c (processes).
 *
 * A turn takes every event of one reactor that is due now, runs the callbacks and then the deferred
 * functions. A process that dies during a turn gets no further callback.
 */
#include "sim_internal.h"

#include "reactor/timer_heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim *sim_now_running;
static struct reactor *reactor_running;

/* ---- events -------------------------------------------------------------------------------- */

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void heap_push(struct sim_heap *heap, struct sim_event *event)
{
	size_t at = heap->count++;

	if (heap->count > heap->room) {
		heap->room = heap->room ? heap->room * 2 : 64;
		heap->events = sim_realloc(heap->events, heap->room * sizeof(*heap->events));
	}
	while (at > 0 && event_before(event, heap->events[(at - 1) / 2])) {
		heap->events[at] = heap->events[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap->events[at] = event;
}

static struct sim_event *heap_pop(struct sim_heap *heap)
{
	struct sim_event *top = heap->events[0];
	struct sim_event *last = heap->events[--heap->count];
	size_t at = 0;

	for (;;) {
		size_t child = at * 2 + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    event_before(heap->events[child + 1], heap->events[child]))
			child++;
		if (!event_before(heap->events[child], last))
			break;
		heap->events[at] = heap->events[child];
		at = child;
	}
	heap->events[at] = last;
	return top;
}

static struct sim_event *heap_top(struct sim_heap *heap)
{
	while (heap->count > 0 && heap->events[0]->fn == NULL)
		free(heap_pop(heap));
	return heap->count > 0 ? heap->events[0] : NULL;
}

static void heap_free(struct sim_heap *heap)
{
	while (heap->count > 0)
		free(heap_pop(heap));
	free(heap->events);
}

struct sim_event *sim_event_add(struct sim *sim, struct reactor *reactor, uint64_t at_ns,
				void (*fn)(struct sim_event *event), void *arg)
{
	struct sim_event *event = sim_alloc(sizeof(*event));

	event->at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns;
	event->sequence = sim->sequence++;
	event->fn = fn;
	event->arg = arg;
	event->reactor = reactor;
	heap_push(reactor ? &reactor->heap : &sim->net_heap, event);
	return event;
}

void sim_event_cancel(struct sim_event **event)
{
	if (*event)
		(*event)->fn = NULL;
	*event = NULL;
}

uint64_t sim_delay_ns(struct sim *sim, uint32_t max_us)
{
	return prng_below(&sim->prng, (uint64_t)max_us + 1) * NS_PER_US;
}

bool sim_chance(struct sim *sim, uint32_t ppm)
{
	return ppm > 0 && prng_below(&sim->prng, 1000000) < ppm;
}

static void event_run(struct sim_heap *heap)
{
	struct sim_event *event = heap_pop(heap);

	if (event->fn)
		event->fn(event);
	free(event);
}

/* ---- the simulation ------------------------------------------------------------------------ */

struct sim *sim_create(uint64_t seed, const struct sim_options *options)
{
	struct sim *sim = sim_alloc(sizeof(*sim));
	const char *trace = getenv("TRACE");

	CHECK(sim_now_running == NULL);
	sim->seed = seed;
	prng_seed(&sim->prng, seed);
	if (options)
		sim->options = *options;
#define DEFAULT(member, value)                                                                     \
	sim->options.member = sim->options.member ? sim->options.member : (value)
	DEFAULT(latency_max_us, 50);
	DEFAULT(latency_us, 1);
	DEFAULT(post_max_us, 5);
	DEFAULT(file_max_us, 200);
	DEFAULT(window_max_bytes, 256 * 1024);
	DEFAULT(segment_max_bytes, UINT32_MAX);
	DEFAULT(recv_max_bytes, UINT32_MAX);
	DEFAULT(connect_timeout_us, 10000000);
	DEFAULT(zc_hold_max_us, 400);
	DEFAULT(faults.stall_max_us, 100000);
#undef DEFAULT
	sim->now_ns = NS_PER_S;
	sim->is_traced = trace && trace[0] == '1';
	sim->next_port = 40000;
	sim->next_client_port = 50000;
	list_init(&sim->reactors);
	list_init(&sim->listeners);
	list_init(&sim->channels);
	list_init(&sim->partitions);
	list_init(&sim->limits);
	list_init(&sim->processes);
	sim_now_running = sim;
	return sim;
}

void sim_destroy(struct sim *sim)
{
	CHECK(sim == sim_now_running && reactor_running == NULL);
	while (!list_empty(&sim->reactors))
		reactor_destroy(list_entry(sim->reactors.next, struct reactor, node));
	sim_net_free(sim);
	sim_channels_free(sim);
	heap_free(&sim->net_heap);
	sim_process_free_all(sim);
	free(sim);
	sim_now_running = NULL;
}

unsigned sim_leaks(const struct sim *sim)
{
	unsigned count = sim->ops_under_way + sim->posts_under_way + sim_net_open_count(sim) +
			 sim_channel_count(sim);

	list_for_each(node, &sim->listeners)
		count++;
	list_for_each(node, &sim->reactors)
		count += list_entry(node, struct reactor, node)->timers_armed;
	return count;
}

uint64_t sim_now(const struct sim *sim)
{
	return sim->now_ns;
}

uint64_t sim_seed(const struct sim *sim)
{
	return sim->seed;
}

struct prng *sim_prng(struct sim *sim)
{
	return &sim->prng;
}

void sim_trace(struct sim *sim, const char *format, ...)
{
	va_list args;

	if (!sim->is_traced)
		return;
	fprintf(stderr, "%12.3f us ", (double)sim->now_ns / 1000.0);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static void wake_run(struct sim_event *event)
{
}

static void deferred_run(struct reactor *reactor)
{
	struct list batch;
	struct list *node;

	list_init(&batch);
	list_splice_back(&batch, &reactor->deferred);
	while (!sim_process_is_dying(reactor->process) && (node = list_pop_front(&batch)) != NULL) {
		struct reactor_defer *defer = list_entry(node, struct reactor_defer, node);

		defer->fn(defer);
	}
	/* Functions deferred by a deferred function run in the next turn. */
	if (!list_empty(&reactor->deferred))
		sim_event_add(reactor->sim, reactor, reactor->sim->now_ns, wake_run, NULL);
}

/* Fires at most as many timers as were armed before: a timer that is armed again for now waits. */
static void timers_fire(struct reactor *reactor)
{
	unsigned most = reactor->timers_armed;
	uint64_t now_ns = reactor_now_ns(reactor);
	struct reactor_timer *timer;

	while (most-- > 0 && !sim_process_is_dying(reactor->process) &&
	       (timer = timer_heap_pop_due(&reactor->timers, now_ns))) {
		reactor->timers_armed--;
		timer->fn(timer);
	}
}

static void turn_run(struct reactor *reactor)
{
	struct sim *sim = reactor->sim;
	uint64_t first_new = sim->sequence;
	struct sim_event *event;

	CHECK(reactor_running == NULL);
	reactor_running = reactor;
	reactor->stats.turns++;
	while (!sim_process_is_dying(reactor->process) &&
	       (event = heap_top(&reactor->heap)) != NULL && event->at_ns <= sim->now_ns &&
	       event->sequence < first_new)
		event_run(&reactor->heap);
	timers_fire(reactor);
	sim_pollers_run(reactor);
	deferred_run(reactor);
	reactor_running = NULL;
	sim_process_bury_dying(sim);
}

struct reactor *sim_turn_swap(struct reactor *reactor)
{
	struct reactor *before = reactor_running;

	reactor_running = reactor;
	return before;
}

/* When the reactor's first timer is due, in simulation time. */
static uint64_t timer_time(struct reactor *reactor)
{
	uint64_t local_ns = reactor->timers->deadline_ns;

	if (!reactor->process)
		return local_ns;
	if (reactor->timer_local_ns != local_ns ||
	    reactor->timer_changes != reactor->process->clock_changes) {
		reactor->timer_local_ns = local_ns;
		reactor->timer_changes = reactor->process->clock_changes;
		reactor->timer_at_ns = sim_clock_moment(reactor->process, local_ns);
	}
	return reactor->timer_at_ns;
}

/* The time of the earliest event, or UINT64_MAX. *ret_reactor: the event's reactor, NULL for the
 * network. */
static uint64_t next_time(struct sim *sim, struct reactor **ret_reactor)
{
	struct sim_event *event = heap_top(&sim->net_heap);
	uint64_t best = event ? event->at_ns : UINT64_MAX;

	*ret_reactor = NULL;
	list_for_each(node, &sim->reactors) {
		struct reactor *reactor = list_entry(node, struct reactor, node);
		uint64_t at = UINT64_MAX;

		if (reactor->is_stopped)
			continue;
		event = heap_top(&reactor->heap);
		if (event)
			at = event->at_ns;
		if (reactor->timers && timer_time(reactor) < at)
			at = timer_time(reactor);
		if (at < reactor->frozen_until_ns)
			at = reactor->frozen_until_ns;
		if (at < best) {
			best = at;
			*ret_reactor = reactor;
		}
	}
	return best;
}

static void step_run(struct sim *sim, uint64_t at_ns, struct reactor *reactor)
{
	if (at_ns > sim->now_ns)
		sim->now_ns = at_ns;
	if (reactor) {
		turn_run(reactor);
		return;
	}
	event_run(&sim->net_heap);
	sim_process_bury_dying(sim);
}

bool sim_step(struct sim *sim)
{
	struct reactor *reactor;
	uint64_t at = next_time(sim, &reactor);

	if (at == UINT64_MAX)
		return false;
	step_run(sim, at, reactor);
	return true;
}

void sim_run_until(struct sim *sim, uint64_t deadline_ns)
{
	struct reactor *reactor;
	uint64_t at;

	while ((at = next_time(sim, &reactor)) <= deadline_ns)
		step_run(sim, at, reactor);
	if (sim->now_ns < deadline_ns)
		sim->now_ns = deadline_ns;
}

bool sim_run_while(struct sim *sim, bool (*pred)(void *arg), void *arg, uint64_t limit_ns)
{
	uint64_t deadline_ns = sim->now_ns + limit_ns;

	while (pred(arg)) {
		if (sim->now_ns > deadline_ns || !sim_step(sim))
			return false;
	}
	return true;
}

void sim_freeze(struct reactor *reactor, uint64_t until_ns)
{
	CHECK(reactor_running != reactor);
	if (until_ns > reactor->frozen_until_ns)
		reactor->frozen_until_ns = until_ns;
	sim_trace(reactor->sim, "reactor %u stands still until %.3f us", reactor->index,
		  (double)until_ns / 1000.0);
}

struct sim_call {
	void (*fn)(void *arg);
	void *arg;
};

static void call_run(struct sim_event *event)
{
	struct sim_call *call = event->arg;

	call->fn(call->arg);
	free(call);
}

void sim_at(struct sim *sim, uint64_t at_ns, void (*fn)(void *arg), void *arg)
{
	struct sim_call *call = sim_alloc(sizeof(*call));

	*call = (struct sim_call){fn, arg};
	sim_event_add(sim, NULL, at_ns, call_run, call);
}

void sim_enter(struct reactor *reactor)
{
	CHECK(reactor_running == NULL);
	reactor_running = reactor;
}

void sim_leave(struct reactor *reactor)
{
	struct sim *sim = reactor->sim;

	CHECK(reactor_running == reactor);
	deferred_run(reactor);
	reactor_running = NULL;
	sim_process_bury_dying(sim);
}

/* ---- reactor.h: life ----------------------------------------------------------------------- */

int reactor_create(const struct reactor_config *config, struct reactor **ret_reactor)
{
	struct reactor *reactor = sim_alloc(sizeof(*reactor));

	CHECK(sim_now_running != NULL);
	reactor->sim = sim_now_running;
	reactor->process = sim_process_current();
	reactor->frozen_until_ns =
		reactor->process ? sim_process_frozen_until(reactor->process) : 0;
	reactor->timer_local_ns = UINT64_MAX;
	reactor->index = config->index;
	reactor->scratch = sim_alloc(REACTOR_SCRATCH_BYTES);
	list_init(&reactor->deferred);
	list_init(&reactor->pollers);
	list_push_back(&reactor->sim->reactors, &reactor->node);
	*ret_reactor = reactor;
	return 0;
}

void reactor_run(struct reactor *reactor)
{
	CHECK(!"the simulator runs the turns: use sim_step");
}

void reactor_stop(struct reactor *reactor)
{
	reactor->is_stopped = true;
}

void reactor_destroy(struct reactor *reactor)
{
	CHECK(reactor_running != reactor);
	list_remove(&reactor->node);
	heap_free(&reactor->heap);
	free(reactor->scratch);
	free(reactor);
}

void sim_reactor_bury(struct reactor *reactor)
{
	for (size_t i = 0; i < reactor->heap.count; i++) {
		struct sim_event *event = reactor->heap.events[i];

		if (event->fn && event->drop)
			event->drop(event);
	}
	sim_channels_bury(reactor);
	reactor_destroy(reactor);
}

struct reactor *reactor_current(void)
{
	return reactor_running;
}

unsigned reactor_index(const struct reactor *reactor)
{
	return reactor->index;
}

uint64_t reactor_now_ns(const struct reactor *reactor)
{
	return sim_clock_local(reactor->process, reactor->sim->now_ns);
}

uint64_t reactor_clock_ns(const struct reactor *reactor)
{
	return reactor_now_ns(reactor);
}

uint8_t *reactor_scratch(struct reactor *reactor)
{
	CHECK(reactor == reactor_running);
	return reactor->scratch;
}

void reactor_get_stats(const struct reactor *reactor, struct reactor_stats *ret_stats)
{
	*ret_stats = reactor->stats;
}

/* ---- messages, deferred functions ---------------------------------------------------------- */

static void post_run(struct sim_event *event)
{
	struct reactor_msg *msg = event->arg;

	event->reactor->sim->posts_under_way--;
	event->reactor->stats.posts++;
	msg->fn(msg);
}

static void post_drop(struct sim_event *event)
{
	event->reactor->sim->posts_under_way--;
}

void reactor_post(struct reactor *dst, struct reactor_msg *msg, void (*fn)(struct reactor_msg *msg))
{
	struct sim *sim = dst->sim;
	uint64_t at_ns;

	if (sim_process_is_dying(sim_process_current()))
		return;
	at_ns = sim->now_ns + sim_delay_ns(sim, sim->options.post_max_us);
	/* Messages to one reactor keep their order. */
	if (at_ns < dst->last_post_ns)
		at_ns = dst->last_post_ns;
	dst->last_post_ns = at_ns;
	msg->fn = fn;
	sim->posts_under_way++;
	sim_event_add(sim, dst, at_ns, post_run, msg)->drop = post_drop;
}

void reactor_defer_init(struct reactor_defer *defer, void (*fn)(struct reactor_defer *defer))
{
	list_init(&defer->node);
	defer->fn = fn;
}

void reactor_defer(struct reactor *reactor, struct reactor_defer *defer)
{
	CHECK(reactor == reactor_running);
	if (!list_linked(&defer->node))
		list_push_back(&reactor->deferred, &defer->node);
}

void reactor_defer_cancel(struct reactor_defer *defer)
{
	list_remove(&defer->node);
}

/* ---- timers -------------------------------------------------------------------------------- */

void reactor_timer_init(struct reactor *reactor, struct reactor_timer *timer,
			void (*fn)(struct reactor_timer *timer))
{
	memset(timer, 0, sizeof(*timer));
	timer->reactor = reactor;
	timer->fn = fn;
}

void reactor_timer_arm(struct reactor_timer *timer, uint64_t deadline_ns)
{
	CHECK(timer->reactor == reactor_running);
	reactor_timer_cancel(timer);
	timer->deadline_ns = deadline_ns;
	timer_heap_insert(&timer->reactor->timers, timer);
	timer->reactor->timers_armed++;
}

void reactor_timer_cancel(struct reactor_timer *timer)
{
	if (!timer->armed)
		return;
	timer_heap_remove(&timer->reactor->timers, timer);
	timer->reactor->timers_armed--;
}
