/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring reactor: creation and end, turns, messages, deferred functions, timers, sleeping.
 *
 * reactor_create opens the ring disabled. reactor_run enables it, which binds the ring to the
 * running thread (SINGLE_ISSUER, DEFER_TASKRUN). Earlier requests only queue.
 *
 * A turn: completions, messages, timers, hot sockets, pollers, deferred functions. Then it submits,
 * and spins (turns that find nothing) or sleeps until a completion, a message or the next timer.
 * There is no periodic tick. A stall is a group of eight callbacks that takes over 1 ms: this costs
 * a clock read per group, not per callback. Time that the kernel gives to other threads counts too.
 */
#include "base/clock.h"
#include "base/log.h"
#include "reactor/reactor_internal.h"
#include "reactor/timer_heap.h"
#include "reactor/uring_caps.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static _Thread_local struct reactor *reactor_of_thread;

/* ---- messages ------------------------------------------------------------------------------- */

/*
 * The handshake with a sleeping reactor, all seq_cst. Poster: push, then read `sleeping`. Reactor:
 * set `sleeping`, then read the queue. In every order at least one of the two sees the other's
 * write.
 */
static void reactor_wake(struct reactor *reactor)
{
	uint64_t one = 1;

	if (atomic_load(&reactor->sleeping) && atomic_exchange(&reactor->sleeping, false))
		CHECK(write(reactor->wake_fd, &one, sizeof(one)) == sizeof(one));
}

void reactor_post(struct reactor *dst, struct reactor_msg *msg, void (*fn)(struct reactor_msg *msg))
{
	struct reactor_msg *head = atomic_load_explicit(&dst->post_head, memory_order_relaxed);

	msg->fn = fn;
	do {
		atomic_store_explicit(&msg->next, head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&dst->post_head, &head, msg));
	reactor_wake(dst);
}

static void reactor_run_messages(struct reactor *reactor)
{
	struct reactor_msg *msg, *in_order = NULL;

	if (!atomic_load_explicit(&reactor->post_head, memory_order_relaxed))
		return;
	/* Messages posted from now on, also by these callbacks, wait for the next turn. */
	msg = atomic_exchange_explicit(&reactor->post_head, NULL, memory_order_acquire);
	while (msg) {
		struct reactor_msg *older = atomic_load_explicit(&msg->next, memory_order_relaxed);

		atomic_store_explicit(&msg->next, in_order, memory_order_relaxed);
		in_order = msg;
		msg = older;
	}
	while (in_order) {
		msg = in_order;
		in_order = atomic_load_explicit(&msg->next, memory_order_relaxed);
		reactor->work++;
		reactor_counter_add(&reactor->posts, 1);
		msg->fn(msg);
		reactor_callback_done(reactor);
	}
}

static void reactor_wake_arm(struct reactor *reactor)
{
	struct io_uring_sqe *sqe = reactor_sqe(reactor);

	io_uring_prep_read(sqe, reactor->wake_fd, &reactor->wake_value, sizeof(reactor->wake_value),
			   0);
	io_uring_sqe_set_data(sqe, &reactor->wake_op);
}

static void reactor_wake_done(struct reactor_op *op, int res)
{
	CHECK(res == sizeof(uint64_t) || res == -EINTR || res == -EAGAIN || res == -ECANCELED);
	reactor_wake_arm(op->reactor);
}

/* ---- deferred functions and timers ---------------------------------------------------------- */

void reactor_defer_init(struct reactor_defer *defer, void (*fn)(struct reactor_defer *defer))
{
	list_init(&defer->node);
	defer->fn = fn;
}

void reactor_defer(struct reactor *reactor, struct reactor_defer *defer)
{
	reactor_check_thread(reactor);
	if (!list_linked(&defer->node))
		list_push_back(&reactor->deferred, &defer->node);
}

void reactor_defer_cancel(struct reactor_defer *defer)
{
	list_remove(&defer->node);
}

static void reactor_run_deferred(struct reactor *reactor)
{
	struct list batch, *node;

	/* A function that is deferred again from here runs in the next turn. */
	list_init(&batch);
	list_splice_back(&batch, &reactor->deferred);
	while ((node = list_pop_front(&batch))) {
		struct reactor_defer *defer = list_entry(node, struct reactor_defer, node);

		reactor->work++;
		defer->fn(defer);
		reactor_callback_done(reactor);
	}
}

void reactor_timer_init(struct reactor *reactor, struct reactor_timer *timer,
			void (*fn)(struct reactor_timer *timer))
{
	*timer = (struct reactor_timer){.reactor = reactor, .fn = fn};
}

void reactor_timer_arm(struct reactor_timer *timer, uint64_t deadline_ns)
{
	struct reactor *reactor = timer->reactor;

	reactor_check_thread(reactor);
	if (timer->armed)
		timer_heap_remove(&reactor->timers, timer);
	timer->deadline_ns = deadline_ns;
	timer_heap_insert(&reactor->timers, timer);
}

void reactor_timer_cancel(struct reactor_timer *timer)
{
	if (!timer->armed)
		return;
	reactor_check_thread(timer->reactor);
	timer_heap_remove(&timer->reactor->timers, timer);
}

static void reactor_run_timers(struct reactor *reactor)
{
	/* The budget stops a timer that always rearms itself for now. */
	for (unsigned i = 0; i < REACTOR_CQE_BUDGET; i++) {
		struct reactor_timer *timer = timer_heap_pop_due(&reactor->timers, reactor->now_ns);

		if (!timer)
			return;
		reactor->work++;
		timer->fn(timer);
		reactor_callback_done(reactor);
	}
}

/* ---- time accounting ------------------------------------------------------------------------ */

static void reactor_span_begin(struct reactor_span *span, uint64_t now_ns)
{
	atomic_store_explicit(&span->since_ns, now_ns, memory_order_relaxed);
}

/* No effect when the span has ended already. */
static void reactor_span_end(struct reactor_span *span, uint64_t now_ns)
{
	uint64_t since_ns = atomic_load_explicit(&span->since_ns, memory_order_relaxed);

	if (since_ns == 0)
		return;
	atomic_store_explicit(&span->since_ns, 0, memory_order_relaxed);
	reactor_counter_add(&span->total_ns, now_ns - since_ns);
}

static uint64_t reactor_span_ns(const struct reactor_span *span, uint64_t now_ns)
{
	uint64_t since_ns = atomic_load_explicit(&span->since_ns, memory_order_relaxed);
	uint64_t total_ns = atomic_load_explicit(&span->total_ns, memory_order_relaxed);

	return total_ns + (since_ns > 0 && now_ns > since_ns ? now_ns - since_ns : 0);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void reactor_stall_check(struct reactor *reactor)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t spent_ns = now_ns - reactor->stall_mark_ns;

	reactor->stall_callbacks = 0;
	reactor->stall_mark_ns = now_ns;
	if (spent_ns <= REACTOR_STALL_NS)
		return;
	reactor_counter_add(&reactor->stalls, 1);
	log_debug("reactor", "callbacks held reactor %u for %llu us", reactor->config.index,
		  (unsigned long long)(spent_ns / NS_PER_US));
}

void reactor_callback_done(struct reactor *reactor)
{
	if (++reactor->stall_callbacks == REACTOR_STALL_GROUP)
		reactor_stall_check(reactor);
}

static void reactor_turn(struct reactor *reactor)
{
	reactor->now_ns = clock_monotonic_ns();
	reactor->stall_mark_ns = reactor->now_ns;
	reactor->stall_callbacks = 0;
	reactor->work = 0;
	reactor_counter_add(&reactor->turns, 1);
	reactor_backlog_drain(reactor);
	reactor_ring_reap(reactor);
	reactor_run_messages(reactor);
	reactor_run_timers(reactor);
	reactor_hot_run(reactor);
	reactor_pollers_run(reactor);
	reactor_run_deferred(reactor);
	if (reactor->stall_callbacks > 0)
		reactor_stall_check(reactor);
}

/* Time until the next timer. UINT64_MAX: no timer; 0: a timer is due. */
static uint64_t reactor_time_to_timer_ns(const struct reactor *reactor)
{
	/* The kernel adds its clock to the timeout; a deadline of UINT64_MAX must not overflow. */
	const uint64_t limit_ns = 3600 * NS_PER_S;
	uint64_t now_ns, left_ns;

	if (!reactor->timers)
		return UINT64_MAX;
	now_ns = clock_monotonic_ns();
	if (reactor->timers->deadline_ns <= now_ns)
		return 0;
	left_ns = reactor->timers->deadline_ns - now_ns;
	return left_ns < limit_ns ? left_ns : limit_ns;
}

static void reactor_sleep(struct reactor *reactor)
{
	bool are_pollers_idle;
	uint64_t timeout_ns;

	reactor_hot_cool_all(reactor);
	are_pollers_idle = reactor_pollers_arm(reactor);
	timeout_ns = reactor_time_to_timer_ns(reactor);
	atomic_store(&reactor->sleeping, true);
	if (atomic_load(&reactor->post_head) || atomic_load(&reactor->stopping) ||
	    timeout_ns == 0 || reactor->backlog_first || !are_pollers_idle) {
		atomic_store(&reactor->sleeping, false);
		reactor_ring_flush(reactor);
		return;
	}
	reactor_counter_add(&reactor->sleeps, 1);
	reactor->has_slept = true;
	reactor_ring_wait(reactor, timeout_ns);
	atomic_store(&reactor->sleeping, false);
}

/* Called in the turn that found work. The kernel's work to deliver it, in the flush of the turn
 * before, counts as busy time. */
static void reactor_idle_end(struct reactor *reactor)
{
	uint64_t end_ns = reactor->found_ns > 0 ? reactor->found_ns : reactor->now_ns;

	reactor_span_end(&reactor->idle_span, end_ns);
	reactor_span_end(&reactor->spin_span, end_ns);
	reactor->found_ns = 0;
}

/* After a turn: continues at once, spins or sleeps. */
static void reactor_rest(struct reactor *reactor)
{
	uint64_t now_ns = reactor->now_ns;

	if (reactor->work > 0) {
		if (reactor->is_idle) {
			spin_policy_note_gap(reactor->spin, now_ns - reactor->last_work_ns,
					     !reactor->has_slept);
			reactor_idle_end(reactor);
		}
		reactor->is_idle = false;
		reactor->last_work_ns = now_ns;
		reactor_ring_flush(reactor);
		return;
	}
	if (!reactor->is_idle) {
		reactor->is_idle = true;
		reactor->has_slept = false;
		reactor->spin =
			reactor->file_ops > 0 ? &reactor->spin_for_files : &reactor->spin_for_hosts;
		reactor->spin_window_ns = spin_policy_window_ns(
			reactor->spin, 1 + reactor->file_ops / REACTOR_FILES_PER_SPIN);
		reactor->spin_until_ns = now_ns + reactor->spin_window_ns;
		reactor_span_begin(&reactor->idle_span, now_ns);
		reactor_span_begin(&reactor->spin_span, now_ns);
	}
	if (now_ns < reactor->spin_until_ns) {
		reactor_ring_flush(reactor);
		reactor->found_ns = io_uring_cq_ready(&reactor->ring) > 0 ? now_ns : 0;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
		return;
	}
	if (!reactor->has_slept && reactor->spin_window_ns > 0)
		spin_policy_note_miss(reactor->spin);
	/* Falling asleep does not count as spinning, although it costs CPU time. */
	reactor_span_end(&reactor->spin_span, now_ns);
	reactor->found_ns = 0;
	reactor_sleep(reactor);
}

static void reactor_thread_set_up(struct reactor *reactor)
{
	char name[16];

	/* The first thread keeps the program's name. */
	if (gettid() != getpid()) {
		snprintf(name, sizeof(name), "weft-r%u", reactor->config.index);
		pthread_setname_np(pthread_self(),
				   reactor->config.name ? reactor->config.name : name);
	}
	if (reactor->config.cpu >= 0) {
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET((unsigned)reactor->config.cpu, &cpus);
		if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus))
			log_warn("reactor", "cannot run on CPU %d", reactor->config.cpu);
	}
}

void reactor_run(struct reactor *reactor)
{
	bool is_last = false;

	CHECK(!reactor_of_thread && !atomic_load(&reactor->running));
	reactor_thread_set_up(reactor);
	/* liburing 2.3 declares io_uring_enable_rings but does not export it. */
	CHECK(io_uring_register((unsigned)reactor->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
				0) == 0);
	/* Saves a file table lookup per system call. A failure is harmless. */
	io_uring_register_ring_fd(&reactor->ring);
	uring_caps_set_workers(&reactor->ring, REACTOR_WORKERS_MAX);
	reactor_of_thread = reactor;
	atomic_store(&reactor->running, true);
	reactor_wake_arm(reactor);
	reactor_span_begin(&reactor->run_span, clock_monotonic_ns());
	for (;;) {
		/* Read before the messages, so that messages posted before the stop are still
		 * delivered. */
		is_last = atomic_load(&reactor->stopping);
		reactor_turn(reactor);
		if (is_last)
			break;
		reactor_rest(reactor);
	}
	reactor_idle_end(reactor);
	reactor_ring_flush(reactor);
	reactor_span_end(&reactor->run_span, clock_monotonic_ns());
	io_uring_unregister_ring_fd(&reactor->ring);
	atomic_store(&reactor->running, false);
	reactor_of_thread = NULL;
}

void reactor_stop(struct reactor *reactor)
{
	atomic_store(&reactor->stopping, true);
	reactor_wake(reactor);
}

/* ---- creation and end ----------------------------------------------------------------------- */

int reactor_create(const struct reactor_config *config, struct reactor **ret_reactor)
{
	struct reactor *reactor = aligned_alloc(_Alignof(struct reactor), sizeof(*reactor));
	int res = -ENOMEM;

	if (!reactor)
		return -ENOMEM;
	memset(reactor, 0, sizeof(*reactor));
	reactor->config = *config;
	list_init(&reactor->deferred);
	list_init(&reactor->hot);
	list_init(&reactor->pollers);
	reactor->spin_max_ns = config->spin_max_us * NS_PER_US;
	spin_policy_init(&reactor->spin_for_hosts, reactor->spin_max_ns);
	spin_policy_init(&reactor->spin_for_files, reactor->spin_max_ns);
	reactor->wake_op = (struct reactor_op){.reactor = reactor, .done = reactor_wake_done};
	if (sched_getaffinity(0, sizeof(reactor->creator_cpus), &reactor->creator_cpus))
		CPU_ZERO(&reactor->creator_cpus);
	reactor->scratch = aligned_alloc(4096, REACTOR_SCRATCH_BYTES);
	if (!reactor->scratch)
		goto fail_scratch;
	/* The eventfd must block: io_uring fails with -EAGAIN on a non-blocking file instead of
	 * waiting. */
	reactor->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (reactor->wake_fd < 0) {
		res = -errno;
		goto fail_event;
	}
	res = uring_caps_open_ring(REACTOR_SQ_ENTRIES, REACTOR_CQ_ENTRIES, &reactor->ring);
	if (res)
		goto fail_ring;
	reactor->has_multishot_accept = uring_caps_has_multishot_accept(&reactor->ring);
	*ret_reactor = reactor;
	return 0;
fail_ring:
	close(reactor->wake_fd);
fail_event:
	free(reactor->scratch);
fail_scratch:
	free(reactor);
	return res;
}

void reactor_destroy(struct reactor *reactor)
{
	if (!reactor)
		return;
	CHECK(!atomic_load(&reactor->running));
	reactor_offload_destroy(reactor);
	io_uring_queue_exit(&reactor->ring);
	close(reactor->wake_fd);
	reactor_backlog_free(reactor);
	free(reactor->scratch);
	free(reactor);
}

struct reactor *reactor_current(void)
{
	return reactor_of_thread;
}

void reactor_check_thread(const struct reactor *reactor)
{
	CHECK(reactor == reactor_of_thread ||
	      !atomic_load_explicit(&reactor->running, memory_order_relaxed));
}

unsigned reactor_index(const struct reactor *reactor)
{
	return reactor->config.index;
}

uint64_t reactor_now_ns(const struct reactor *reactor)
{
	/* Outside reactor_run no turn reads the clock. */
	return reactor == reactor_of_thread ? reactor->now_ns : clock_monotonic_ns();
}

uint64_t reactor_clock_ns(const struct reactor *reactor)
{
	return clock_monotonic_ns();
}

uint8_t *reactor_scratch(struct reactor *reactor)
{
	return reactor->scratch;
}

void reactor_get_stats(const struct reactor *reactor, struct reactor_stats *ret_stats)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t idle_ns = reactor_span_ns(&reactor->idle_span, now_ns);
	uint64_t run_ns = reactor_span_ns(&reactor->run_span, now_ns);

	*ret_stats = (struct reactor_stats){
		.turns = atomic_load_explicit(&reactor->turns, memory_order_relaxed),
		.sleeps = atomic_load_explicit(&reactor->sleeps, memory_order_relaxed),
		.stalls = atomic_load_explicit(&reactor->stalls, memory_order_relaxed),
		.posts = atomic_load_explicit(&reactor->posts, memory_order_relaxed),
		.run_ns = run_ns,
		.busy_ns = run_ns > idle_ns ? run_ns - idle_ns : 0,
		.spin_ns = reactor_span_ns(&reactor->spin_span, now_ns),
	};
}
