/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests are submitted and completed: callbacks on reactors and in weft_poll, submission from
 * many threads and from inside callbacks, several instances at once, more split requests than the
 * pool holds, and a hundred openings and closings. Run under the sanitizers too.
 */
#include "lib_world.h"

#include <poll.h>
#include <stdatomic.h>

#define THREADS         4
#define PER_THREAD      64
#define RESUBMISSIONS   500
#define SPLIT_REQUESTS  24
#define SPLIT_BYTES     (8u << 20)
#define REOPENS         100
#define PATIENCE_MS     20000
#define RANGES_REQUESTS 40

struct group {
	_Atomic unsigned left;
	_Atomic int failures;
	_Atomic unsigned resubmissions;
	struct weft_ns *ns;
	pthread_mutex_t lock;
	pthread_cond_t all_done;
};

struct item {
	struct weft_request request;
	struct group *group;
	struct iovec iov;
	uint8_t bytes[512];
};

static void group_init(struct group *group, struct weft_ns *ns, unsigned left)
{
	*group = (struct group){.ns = ns, .left = left};
	pthread_mutex_init(&group->lock, NULL);
	pthread_cond_init(&group->all_done, NULL);
}

static void group_count(struct group *group)
{
	if (atomic_fetch_sub(&group->left, 1) > 1)
		return;
	pthread_mutex_lock(&group->lock);
	pthread_cond_signal(&group->all_done);
	pthread_mutex_unlock(&group->lock);
}

static void group_wait(struct group *group)
{
	pthread_mutex_lock(&group->lock);
	while (atomic_load(&group->left) > 0)
		pthread_cond_wait(&group->all_done, &group->lock);
	pthread_mutex_unlock(&group->lock);
}

static void item_done(struct weft_request *request)
{
	struct item *item = request->arg;

	if (request->result != 0)
		atomic_fetch_add(&item->group->failures, 1);
	group_count(item->group);
}

static void item_prepare(struct item *item, struct group *group, enum weft_op op, uint64_t block)
{
	*item = (struct item){.group = group, .iov = {item->bytes, sizeof(item->bytes)}};
	item->iov.iov_base = item->bytes;
	item->request = (struct weft_request){.op = op,
					      .block = block,
					      .block_count = 1,
					      .iov = &item->iov,
					      .iov_count = 1,
					      .reactor = (unsigned)block,
					      .done = item_done,
					      .arg = item};
}

struct submitter {
	struct group *group;
	unsigned index;
	struct item items[PER_THREAD];
};

static void *submitter_main(void *arg)
{
	struct submitter *submitter = arg;

	for (unsigned i = 0; i < PER_THREAD; i++) {
		uint64_t block = submitter->index * PER_THREAD + i;
		struct item *item = &submitter->items[i];

		item_prepare(item, submitter->group, WEFT_WRITE, block);
		world_fill(item->bytes, sizeof(item->bytes), (uint32_t)block);
		if (weft_submit(submitter->group->ns, &item->request) != 0)
			atomic_fetch_add(&submitter->group->failures, 1000);
	}
	return NULL;
}

/* Four threads submit at once; returns the number of failures. */
static int threads_run(struct weft_ns *ns, struct weft *polled)
{
	struct submitter *submitters = calloc(THREADS, sizeof(*submitters));
	pthread_t threads[THREADS];
	struct group group;
	int failures;

	group_init(&group, ns, THREADS * PER_THREAD);
	for (unsigned i = 0; i < THREADS; i++) {
		submitters[i].group = &group;
		submitters[i].index = i;
		pthread_create(&threads[i], NULL, submitter_main, &submitters[i]);
	}
	while (polled != NULL && atomic_load(&group.left) > 0) {
		if (weft_poll(polled, 3, PATIENCE_MS) == 0)
			break;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	group_wait(&group);
	failures = atomic_load(&group.failures);
	for (uint64_t block = 0; block < THREADS * PER_THREAD; block++) {
		uint8_t want[512], got[512];

		world_fill(want, sizeof(want), (uint32_t)block);
		failures += weft_read(ns, got, block, 1) != 0 || memcmp(want, got, 512) != 0;
	}
	free(submitters);
	return failures;
}

static struct weft *weft_of(enum weft_callbacks callbacks, unsigned reactors)
{
	struct weft_options options;

	weft_options_init(&options);
	options.callbacks = callbacks;
	options.reactors = reactors;
	return world_create(&options);
}

static void submits_from_threads_with_reactor_callbacks(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_REACTOR, 2);
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_SMALL);

	EXPECT_EQ(0, threads_run(ns, NULL));
	EXPECT_EQ(-EINVAL, weft_poll(weft, 0, 0));
	EXPECT_EQ(-EINVAL, weft_poll_fd(weft));
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

static void submits_from_threads_with_polling(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_POLL, 3);
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_SMALL);

	EXPECT_EQ(0, threads_run(ns, weft));
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

/* The descriptor is readable when weft_poll has work, and stays so until the work is done. */
static void tells_by_a_file_descriptor(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_POLL, 1);
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_SMALL);
	struct pollfd pollfd = {.fd = weft_poll_fd(weft), .events = POLLIN};
	static struct item items[8];
	struct group group;
	unsigned run = 0;

	EXPECT_EQ(0, poll(&pollfd, 1, 0));
	EXPECT_EQ(0, weft_poll(weft, 0, 0));
	group_init(&group, ns, 8);
	for (unsigned i = 0; i < 8; i++) {
		item_prepare(&items[i], &group, WEFT_READ, i);
		EXPECT_EQ(0, weft_submit(ns, &items[i].request));
	}
	while (run < 8) {
		int res = poll(&pollfd, 1, PATIENCE_MS);

		EXPECT_EQ(1, res);
		if (res != 1)
			break;
		res = weft_poll(weft, 1, 0);
		EXPECT(res >= 0 && res <= 1);
		run += (unsigned)res;
	}
	EXPECT_EQ(0, atomic_load(&group.left));
	EXPECT_EQ(0, atomic_load(&group.failures));
	/* A late wake-up may make it readable once more. */
	EXPECT_EQ(0, weft_poll(weft, 0, 0));
	EXPECT_EQ(0, weft_poll(weft, 0, 20));
	EXPECT_EQ(0, poll(&pollfd, 1, 0));
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

static void resubmit_done(struct weft_request *request)
{
	struct item *item = request->arg;
	struct group *group = item->group;

	if (request->result != 0)
		atomic_fetch_add(&group->failures, 1);
	if (atomic_fetch_add(&group->resubmissions, 1) >= RESUBMISSIONS) {
		group_count(group);
		return;
	}
	request->op = request->op == WEFT_READ ? WEFT_WRITE : WEFT_READ;
	/* On the other reactor as well as on this one. */
	request->reactor++;
	if (weft_submit(group->ns, request) != 0)
		atomic_fetch_add(&group->failures, 1000);
}

static void resubmits_in_done(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_REACTOR, 2);
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_SMALL);
	static struct item items[16];
	struct group group;

	group_init(&group, ns, 16);
	for (unsigned i = 0; i < 16; i++) {
		item_prepare(&items[i], &group, WEFT_READ, i);
		items[i].request.done = resubmit_done;
		EXPECT_EQ(0, weft_submit(ns, &items[i].request));
	}
	group_wait(&group);
	EXPECT_EQ(0, atomic_load(&group.failures));
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

struct refusal {
	struct weft_request request;
	struct weft *weft;
	struct weft_subsystem *subsystem;
	struct weft_ns *ns;
	struct group group;
	int run_res, open_res, paths_res;
};

static void refusal_done(struct weft_request *request)
{
	struct refusal *refusal = request->arg;
	struct weft_subsystem *subsystem;
	struct weft_open_options options;
	struct weft_path path;

	world_open_options(&options, &path);
	refusal->run_res = weft_flush(refusal->ns);
	refusal->open_res = weft_open(refusal->weft, &options, &subsystem, NULL);
	refusal->paths_res = weft_paths(refusal->subsystem, 0, NULL, 0);
	group_count(&refusal->group);
}

static void does_not_wait_for_itself(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_REACTOR, 1);
	static struct refusal refusal;

	refusal.weft = weft;
	refusal.subsystem = world_open(weft);
	refusal.ns = world_ns(refusal.subsystem, NS_SMALL);
	refusal.request =
		(struct weft_request){.op = WEFT_FLUSH, .done = refusal_done, .arg = &refusal};
	group_init(&refusal.group, refusal.ns, 1);
	EXPECT_EQ(0, weft_submit(refusal.ns, &refusal.request));
	group_wait(&refusal.group);
	EXPECT_EQ(-EDEADLK, refusal.run_res);
	EXPECT_EQ(-EDEADLK, refusal.open_res);
	EXPECT_EQ(-EDEADLK, refusal.paths_res);
	weft_ns_close(refusal.ns);
	weft_close(refusal.subsystem);
	weft_destroy(weft);
}

struct long_item {
	struct weft_request request;
	struct group *group;
	struct iovec iov;
	uint8_t *bytes;
	struct weft_range ranges[256];
};

static void long_done(struct weft_request *request)
{
	struct long_item *item = request->arg;

	if (request->result != 0)
		atomic_fetch_add(&item->group->failures, 1);
	group_count(item->group);
}

/* Many more children than the pool has wait for each other and all get through. */
static void splits_more_than_the_pool_holds(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_REACTOR, 1);
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_BIG);
	static struct long_item items[SPLIT_REQUESTS];
	uint8_t *bytes = malloc(SPLIT_BYTES);
	struct group group;

	world_fill(bytes, SPLIT_BYTES, 11);
	EXPECT_EQ(0, weft_write(ns, bytes, 0, SPLIT_BYTES / 4096, 0));
	group_init(&group, ns, SPLIT_REQUESTS);
	for (unsigned i = 0; i < SPLIT_REQUESTS; i++) {
		struct long_item *item = &items[i];

		item->bytes = malloc(SPLIT_BYTES);
		item->group = &group;
		item->iov = (struct iovec){item->bytes, SPLIT_BYTES};
		item->request = (struct weft_request){.op = WEFT_READ,
						      .block_count = SPLIT_BYTES / 4096,
						      .iov = &item->iov,
						      .iov_count = 1,
						      .done = long_done,
						      .arg = item};
		EXPECT_EQ(0, weft_submit(ns, &item->request));
	}
	group_wait(&group);
	EXPECT_EQ(0, atomic_load(&group.failures));
	for (unsigned i = 0; i < SPLIT_REQUESTS; i++) {
		EXPECT(memcmp(bytes, items[i].bytes, SPLIT_BYTES) == 0);
		free(items[i].bytes);
	}
	free(bytes);
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

/* More lists of ranges than buffers for them. */
static void waits_for_range_buffers(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_REACTOR, 1);
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_BIG);
	static struct long_item items[RANGES_REQUESTS];
	struct group group;

	group_init(&group, ns, RANGES_REQUESTS);
	for (unsigned i = 0; i < RANGES_REQUESTS; i++) {
		struct long_item *item = &items[i];

		item->group = &group;
		for (unsigned k = 0; k < 256; k++)
			item->ranges[k] = (struct weft_range){.block = 2 * k, .block_count = 1};
		item->request = (struct weft_request){.op = WEFT_DEALLOCATE,
						      .ranges = item->ranges,
						      .range_count = 256,
						      .done = long_done,
						      .arg = item};
		EXPECT_EQ(0, weft_submit(ns, &item->request));
	}
	group_wait(&group);
	EXPECT_EQ(0, atomic_load(&group.failures));
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

/* Two instances, one of which has the subsystem open twice, know nothing of each other. */
static void runs_several_instances(void)
{
	struct weft *first = weft_of(WEFT_CALLBACKS_REACTOR, 1);
	struct weft *second = weft_of(WEFT_CALLBACKS_POLL, 2);
	struct weft_subsystem *a = world_open(first), *b = world_open(first);
	struct weft_subsystem *c = world_open(second);
	struct weft_ns *na = world_ns(a, NS_SMALL), *nb = world_ns(b, NS_SMALL);
	struct weft_ns *nc = world_ns(c, NS_SMALL);
	uint8_t out[512], in[512];

	world_fill(out, sizeof(out), 21);
	EXPECT_EQ(0, weft_write(na, out, 1, 1, 0));
	EXPECT_EQ(0, weft_read(nb, in, 1, 1));
	EXPECT(memcmp(in, out, 512) == 0);
	memset(in, 0, sizeof(in));
	EXPECT_EQ(0, weft_read(nc, in, 1, 1));
	EXPECT(memcmp(in, out, 512) == 0);
	weft_ns_close(na);
	weft_close(a);
	EXPECT_EQ(0, weft_read(nb, in, 1, 1));
	weft_ns_close(nb);
	weft_close(b);
	weft_destroy(first);
	EXPECT_EQ(0, weft_read(nc, in, 1, 1));
	weft_ns_close(nc);
	weft_close(c);
	weft_destroy(second);
}

/* Leaves no file descriptor and no memory behind (memory: address sanitizer). */
static void opens_and_closes_a_hundred_times(void)
{
	struct weft *weft = weft_of(WEFT_CALLBACKS_REACTOR, 1);
	int before = dup(0), after;

	for (unsigned i = 0; i < REOPENS; i++) {
		struct weft_subsystem *subsystem = world_open(weft);
		struct weft_ns *ns = world_ns(subsystem, NS_SMALL);
		uint8_t bytes[512];

		EXPECT_EQ(0, weft_read(ns, bytes, i, 1));
		weft_ns_close(ns);
		weft_close(subsystem);
	}
	weft_destroy(weft);
	for (unsigned i = 0; i < REOPENS / 4; i++)
		weft_destroy(weft_of(WEFT_CALLBACKS_POLL, 2));
	after = dup(0);
	EXPECT(after <= before + 1);
	close(before);
	close(after);
}

int main(void)
{
	TAP_RUN(submits_from_threads_with_reactor_callbacks);
	TAP_RUN(submits_from_threads_with_polling);
	TAP_RUN(tells_by_a_file_descriptor);
	TAP_RUN(resubmits_in_done);
	TAP_RUN(does_not_wait_for_itself);
	TAP_RUN(splits_more_than_the_pool_holds);
	TAP_RUN(waits_for_range_buffers);
	TAP_RUN(runs_several_instances);
	TAP_RUN(opens_and_closes_a_hundred_times);
	return tap_end();
}
