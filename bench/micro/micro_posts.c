/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro: messages between two real reactors, each on its own thread, both spinning.
 *
 * One way: the first reactor posts all idle messages of a pool in every turn, and the second counts
 * them. There and back: one message bounces. Elapsed time, so two free CPUs matter.
 */
#include "micro.h"

#include "base/clock.h"
#include "base/list.h"
#include "reactor/reactor.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define POOL    1024
#define SPIN_US 10000u

struct parcel {
	struct reactor_msg msg; /* first */
	struct posts *posts;
	_Atomic bool is_under_way;
};

struct posts {
	struct reactor *from;
	struct reactor *to;
	struct reactor_defer every_turn;
	struct reactor_msg start_msg;
	struct parcel *parcels;
	unsigned next;
	uint64_t sent;
	uint64_t wanted;
	uint64_t arrived;
	uint64_t start_ns;
	uint64_t end_ns;
};

static void posts_end(struct posts *posts)
{
	posts->end_ns = clock_monotonic_ns();
	reactor_stop(posts->from);
	reactor_stop(posts->to);
}

/* ---- one way -------------------------------------------------------------------------------- */

static void parcel_arrived(struct reactor_msg *msg)
{
	struct parcel *parcel = container_of(msg, struct parcel, msg);
	struct posts *posts = parcel->posts;

	atomic_store_explicit(&parcel->is_under_way, false, memory_order_release);
	if (++posts->arrived == posts->wanted)
		posts_end(posts);
}

static void parcels_send(struct reactor_defer *defer)
{
	struct posts *posts = container_of(defer, struct posts, every_turn);

	while (posts->sent < posts->wanted) {
		struct parcel *parcel = &posts->parcels[posts->next];

		if (atomic_load_explicit(&parcel->is_under_way, memory_order_acquire))
			break;
		atomic_store_explicit(&parcel->is_under_way, true, memory_order_relaxed);
		posts->next = (posts->next + 1) % POOL;
		posts->sent++;
		reactor_post(posts->to, &parcel->msg, parcel_arrived);
	}
	if (posts->sent < posts->wanted)
		reactor_defer(posts->from, defer);
}

static void one_way_start(struct reactor_msg *msg)
{
	struct posts *posts = container_of(msg, struct posts, start_msg);

	posts->start_ns = clock_monotonic_ns();
	reactor_defer(posts->from, &posts->every_turn);
}

/* ---- there and back ------------------------------------------------------------------------- */

static void bounce_back(struct reactor_msg *msg);

static void bounce_there(struct reactor_msg *msg)
{
	struct posts *posts = container_of(msg, struct parcel, msg)->posts;

	reactor_post(posts->from, msg, bounce_back);
}

static void bounce_back(struct reactor_msg *msg)
{
	struct posts *posts = container_of(msg, struct parcel, msg)->posts;

	if (++posts->arrived == posts->wanted)
		posts_end(posts);
	else
		reactor_post(posts->to, msg, bounce_there);
}

static void bounce_start(struct reactor_msg *msg)
{
	struct posts *posts = container_of(msg, struct posts, start_msg);

	posts->start_ns = clock_monotonic_ns();
	reactor_post(posts->to, &posts->parcels[0].msg, bounce_there);
}

/* ---- both ----------------------------------------------------------------------------------- */

/* The allowed CPU of this index, or -1 when there are not two: then both may run anywhere. */
static int cpu_pick(unsigned index)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0 || CPU_COUNT(&cpus) < 2)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((unsigned)cpu, &cpus) && index-- == 0)
			return cpu;
	return -1;
}

static struct reactor *reactor_make(unsigned index)
{
	struct reactor_config config = {
		.index = index, .cpu = cpu_pick(index), .spin_max_us = SPIN_US};
	struct reactor *reactor;

	CHECK(reactor_create(&config, &reactor) == 0);
	return reactor;
}

static void *reactor_thread(void *arg)
{
	reactor_run(arg);
	return NULL;
}

static uint64_t posts_run(uint64_t count, void (*start)(struct reactor_msg *msg))
{
	struct posts posts = {.from = reactor_make(0), .to = reactor_make(1), .wanted = count};
	pthread_t threads[2];

	posts.parcels = calloc(POOL, sizeof(*posts.parcels));
	CHECK(posts.parcels != NULL);
	for (unsigned i = 0; i < POOL; i++)
		posts.parcels[i].posts = &posts;
	reactor_defer_init(&posts.every_turn, parcels_send);
	reactor_post(posts.from, &posts.start_msg, start);
	CHECK(pthread_create(&threads[0], NULL, reactor_thread, posts.from) == 0);
	CHECK(pthread_create(&threads[1], NULL, reactor_thread, posts.to) == 0);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	reactor_destroy(posts.from);
	reactor_destroy(posts.to);
	free(posts.parcels);
	return posts.end_ns - posts.start_ns;
}

static uint64_t one_way_run(void *arg, uint64_t count)
{
	return posts_run(count, one_way_start);
}

static uint64_t bounce_run(void *arg, uint64_t count)
{
	return posts_run(count, bounce_start);
}

void micro_posts(struct micro *micro)
{
	static const struct micro_what one_way = {.group = "post",
						  .name = "one way",
						  .unit = MICRO_PER_SECOND},
				       bounce = {.group = "post",
						 .name = "there and back",
						 .unit = MICRO_PER_SECOND};

	micro_measure(micro, &one_way, one_way_run, NULL);
	micro_measure(micro, &bounce, bounce_run, NULL);
}
