/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host of the torture test: reads and writes stamped blocks over several paths until "stop",
 * and checks every block that it reads (block_model.h). Another program breaks the paths.
 *
 *     weft_torture --path ADDR:PORT [--path ...] --nqn NQN [--nsid N] [--blocks N] [--depth N]
 *                  [--profile NAME] [--set NAME=VALUE]... [--policy NAME] [--seed N] [--unsafe]
 *                  [--hedge PERCENTILE] [--digests] [--zero-copy BYTES] [--host-nqn NQN]
 *                  [--rate N] [--zeroes]
 *
 * --rate: commands per second at most; --zeroes: a quarter of the writes are Write Zeroes with
 * deallocation. The host identifier is derived from the host's NQN.
 *
 * Prints "ready". Orders on standard input, one per line, each answered with one line of JSON:
 *     mark     resets the longest latencies
 *     report   what happened: commands, losses of paths, fences, longest latency since the mark,
 *              which statuses commands failed with and how many had no path or no known outcome
 *     verify   waits for commands in flight, reads every block, goes on; a read that fails is
 *              repeated a few times, then the block counts as unread
 *     stop     verifies, closes, exits: 0 no error, 1 an error
 * One reactor on the main thread; a second thread reads the orders. --unsafe switches off the rule
 * of safe failover: the test must then find corruption.
 */
#include "block_model.h"
#include "orders.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/mpath.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX    256
#define RUN_BLOCKS   8
#define FAULTS_SHOWN 10
#define STATUSES_MAX 16
#define SCAN_TRIES   20
#define RATE_STEP_MS 10
#define DEFAULT_NQN  "nqn.2026-11.io.weft:default"

enum phase {
	PHASE_LOAD,
	PHASE_DRAIN,  /* no new load; then the scan */
	PHASE_VERIFY, /* every block is read */
	PHASE_CLOSING,
};

struct task {
	struct mpath_io io;
	struct torture *torture;
	struct iovec iov;
	uint32_t first;
	uint32_t count;
	uint64_t generation; /* of a write */
	bool is_write;
	unsigned scan_tries; /* failed reads so far */
	uint64_t begun_ns;   /* 0: not in flight */
	uint8_t *data;
};

/* Number of commands that failed with a status. */
struct status_count {
	uint16_t value;
	uint64_t count;
};

struct torture {
	struct reactor *reactor;
	struct mpath *mpath;
	struct mpath_ns *ns;
	struct block_model model;
	struct prng prng;
	enum phase phase;
	bool is_stopping; /* after this verify */
	unsigned depth;
	unsigned running;
	uint32_t nsid;
	uint32_t scan_next;
	struct task tasks[DEPTH_MAX];
	struct list idle; /* tasks, by io.node, which the engine does not use before submit */
	bool wants_zeroes;
	uint32_t rate; /* commands in a second; 0: no limit */
	uint64_t allowance;
	struct reactor_timer rate_timer;

	uint64_t reads;
	uint64_t writes;
	uint64_t failed;
	uint64_t failed_by[MPATH_LOST + 1]; /* by enum mpath_result */
	struct status_count statuses[STATUSES_MAX];
	uint64_t unread; /* blocks of a scan that could not be read */
	uint64_t resent; /* commands that took more than one attempt */
	uint64_t wrong;
	uint64_t latency_max_ns; /* since the mark */
	uint64_t gap_max_ns;     /* longest time without any command ending */
	uint64_t ended_ns;
};

static struct torture torture;

/* ---- load -------------------------------------------------------------------------------------
 */

static void torture_fill(struct torture *t);

static void note_end(struct torture *t, struct task *task)
{
	uint64_t now_ns = reactor_clock_ns(t->reactor);
	uint64_t gap_ns = now_ns - t->ended_ns;

	if (now_ns - task->begun_ns > t->latency_max_ns)
		t->latency_max_ns = now_ns - task->begun_ns;
	if (t->ended_ns != 0 && gap_ns > t->gap_max_ns)
		t->gap_max_ns = gap_ns;
	t->ended_ns = now_ns;
	t->resent += task->io.attempts > 1;
	task->begun_ns = 0;
}

static void judge_read(struct torture *t, struct task *task)
{
	char text[160];

	if (block_model_judge(&t->model, task->first, task->count, task->data, text,
			      sizeof(text)) == MODEL_RIGHT)
		return;
	if (t->wrong++ < FAULTS_SHOWN)
		fprintf(stderr, "WRONG: %s\n", text);
}

static void note_failure(struct torture *t, const struct mpath_io *io)
{
	uint16_t value = io->status.value & 0x7ff; /* SCT and SC */

	t->failed++;
	t->failed_by[io->result]++;
	for (unsigned i = 0; io->result == MPATH_STATUS && i < STATUSES_MAX; i++) {
		struct status_count *row = &t->statuses[i];

		if (row->count > 0 && row->value != value)
			continue;
		row->value = value;
		row->count++;
		break;
	}
}

static void task_start(struct torture *t, struct task *task, bool is_write);

/* Repeats a failed read of a scan; false: no repetition. */
static bool scan_again(struct torture *t, struct task *task)
{
	if (t->phase != PHASE_VERIFY)
		return false;
	if (++task->scan_tries < SCAN_TRIES) {
		t->running--;
		task_start(t, task, false);
		return true;
	}
	t->unread += task->count;
	return false;
}

static void task_done(struct mpath_io *io)
{
	struct task *task = container_of(io, struct task, io);
	struct torture *t = task->torture;
	bool is_ok = io->result == MPATH_OK;

	note_end(t, task);
	if (!is_ok)
		note_failure(t, io);
	if (!is_ok && !task->is_write && scan_again(t, task))
		return;
	if (task->is_write) {
		t->writes++;
		block_model_wrote(&t->model, task->first, task->count, task->generation, is_ok,
				  io->result != MPATH_NO_PATH);
	} else {
		t->reads++;
		if (is_ok)
			judge_read(t, task);
	}
	block_model_end(&t->model, task->first, task->count);
	t->running--;
	list_push_back(&t->idle, &io->node);
	torture_fill(t);
}

static void task_start(struct torture *t, struct task *task, bool is_write)
{
	uint32_t data_bytes = task->count * MODEL_BLOCK_BYTES;
	bool is_zeroes = is_write && t->wants_zeroes && prng_one_in(&t->prng, 4);
	struct host_cmd filled = {0};

	block_model_begin(&t->model, task->first, task->count);
	task->is_write = is_write;
	task->generation = 0;
	if (is_zeroes) {
		host_cmd_write_zeroes(&filled, t->nsid, task->first, task->count, true);
		data_bytes = 0;
	} else if (is_write) {
		task->generation =
			block_model_stamp(&t->model, task->first, task->count, task->data);
		host_cmd_write(&filled, t->nsid, task->first, task->count, task->data, data_bytes);
	} else {
		host_cmd_read(&filled, t->nsid, task->first, task->count, task->data, data_bytes);
	}
	task->iov = (struct iovec){.iov_base = task->data, .iov_len = data_bytes};
	task->begun_ns = reactor_clock_ns(t->reactor);
	task->io = (struct mpath_io){
		.sqe = filled.sqe,
		.direction = is_zeroes  ? HOST_DATA_NONE
			     : is_write ? HOST_DATA_TO_CTRL
					: HOST_DATA_FROM_CTRL,
		.iov = is_zeroes ? NULL : &task->iov,
		.iov_count = is_zeroes ? 0 : 1,
		.data_bytes = data_bytes,
		.done = task_done,
	};
	t->running++;
	mpath_submit(t->ns, &task->io);
}

static struct task *take_idle(struct torture *t)
{
	return container_of(list_pop_front(&t->idle), struct task, io.node);
}

static void fill_load(struct torture *t)
{
	while (t->running < t->depth && (t->rate == 0 || t->allowance > 0)) {
		uint32_t first;
		uint32_t count = block_model_pick(&t->model, &t->prng, RUN_BLOCKS, &first);
		struct task *task;

		if (count == 0)
			return;
		t->allowance -= t->rate != 0;
		task = take_idle(t);
		task->first = first;
		task->count = count;
		task_start(t, task, prng_one_in(&t->prng, 2));
	}
}

static void fill_scan(struct torture *t)
{
	while (t->running < t->depth && t->scan_next < t->model.block_count) {
		struct task *task = take_idle(t);
		uint32_t left = t->model.block_count - t->scan_next;

		task->first = t->scan_next;
		task->count = left < RUN_BLOCKS ? left : RUN_BLOCKS;
		t->scan_next += task->count;
		task->scan_tries = 0;
		task_start(t, task, false);
	}
}

/* Unused commands of a step expire: no burst follows a pause. */
static void rate_step(struct reactor_timer *timer)
{
	struct torture *t = container_of(timer, struct torture, rate_timer);
	uint64_t now_ns = reactor_now_ns(t->reactor);

	t->allowance = (uint64_t)t->rate * RATE_STEP_MS / 1000;
	reactor_timer_arm(timer, now_ns + RATE_STEP_MS * NS_PER_MS);
	torture_fill(t);
}

/* ---- answers ------------------------------------------------------------------------------------
 */

static void report_failures(const struct torture *t)
{
	printf("\"no_path\": %llu, \"unknown\": %llu, \"gone\": %llu, \"unread\": %llu, "
	       "\"statuses\": {",
	       (unsigned long long)t->failed_by[MPATH_NO_PATH],
	       (unsigned long long)t->failed_by[MPATH_UNKNOWN],
	       (unsigned long long)t->failed_by[MPATH_GONE], (unsigned long long)t->unread);
	for (unsigned i = 0; i < STATUSES_MAX && t->statuses[i].count > 0; i++)
		printf("%s\"%#x\": %llu", i == 0 ? "" : ", ", t->statuses[i].value,
		       (unsigned long long)t->statuses[i].count);
	printf("}, ");
}

/* Age of the oldest command in flight; 0: none. */
static uint64_t oldest_age_ns(const struct torture *t)
{
	uint64_t now_ns = reactor_clock_ns(t->reactor), age_ns = 0;

	for (unsigned i = 0; i < t->depth; i++) {
		const struct task *task = &t->tasks[i];

		if (task->begun_ns != 0 && now_ns - task->begun_ns > age_ns)
			age_ns = now_ns - task->begun_ns;
	}
	return age_ns;
}

static void report(struct torture *t)
{
	uint64_t losses = 0, by_reset = 0, by_time = 0;
	unsigned live = 0;

	for (unsigned i = 0; i < mpath_path_count(t->mpath); i++) {
		struct path_info info;

		mpath_path_info(t->mpath, i, &info);
		losses += info.losses;
		by_reset += info.fences_by_reset;
		by_time += info.fences_by_time;
		live += info.state == PATH_LIVE;
	}
	printf("{");
	report_failures(t);
	printf("\"reads\": %llu, \"writes\": %llu, \"failed\": %llu, \"resent\": %llu, "
	       "\"wrong\": %llu, \"losses\": %llu, \"fences_by_reset\": %llu, "
	       "\"fences_by_time\": %llu, \"live\": %u, \"latency_max_us\": %llu, "
	       "\"gap_max_us\": %llu, \"oldest_us\": %llu}\n",
	       (unsigned long long)t->reads, (unsigned long long)t->writes,
	       (unsigned long long)t->failed, (unsigned long long)t->resent,
	       (unsigned long long)t->wrong, (unsigned long long)losses,
	       (unsigned long long)by_reset, (unsigned long long)by_time, live,
	       (unsigned long long)(t->latency_max_ns / NS_PER_US),
	       (unsigned long long)(t->gap_max_ns / NS_PER_US),
	       (unsigned long long)(oldest_age_ns(t) / NS_PER_US));
	fflush(stdout);
}

static void on_gone(void *arg)
{
	struct torture *t = arg;

	reactor_stop(t->reactor);
}

static void torture_fill(struct torture *t)
{
	if (t->phase == PHASE_LOAD)
		fill_load(t);
	if (t->phase == PHASE_DRAIN && t->running == 0) {
		t->phase = PHASE_VERIFY;
		t->scan_next = 0;
	}
	if (t->phase != PHASE_VERIFY)
		return;
	fill_scan(t);
	if (t->running > 0)
		return;
	report(t);
	t->phase = t->is_stopping ? PHASE_CLOSING : PHASE_LOAD;
	reactor_timer_cancel(&t->rate_timer);
	if (t->is_stopping)
		mpath_close(t->mpath, on_gone, t);
	else if (t->rate != 0)
		rate_step(&t->rate_timer);
	else
		fill_load(t);
}

/* ---- orders -------------------------------------------------------------------------------------
 */

static void on_order(struct reactor_msg *msg)
{
	struct order *order = container_of(msg, struct order, msg);
	struct torture *t = &torture;

	if (strcmp(order->text, "mark") == 0) {
		t->latency_max_ns = t->gap_max_ns = 0;
		report(t);
	} else if (strcmp(order->text, "report") == 0) {
		report(t);
	} else if (t->phase == PHASE_LOAD) {
		t->is_stopping = strcmp(order->text, "stop") == 0;
		t->phase = PHASE_DRAIN;
		torture_fill(t);
	}
	free(order);
}

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	struct torture *t = arg;

	t->ns = res == 0 ? mpath_ns_find(mpath, t->nsid) : NULL;
	if (!t->ns) {
		fprintf(stderr, "weft_torture: %s\n", res == 0 ? "no such namespace" : error->text);
		exit(2);
	}
	puts("ready");
	fflush(stdout);
	if (t->rate != 0)
		rate_step(&t->rate_timer);
	else
		torture_fill(t);
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	struct path_info info;
	char name[HOST_ADDR_TEXT_BYTES];

	(void)arg;
	mpath_path_info(mpath, path, &info);
	log_info("torture", "path %s: %s", host_addr_format(&info.addr, name), what);
}

/* ---- options ------------------------------------------------------------------------------------
 */

struct options {
	struct mpath_config config;
	struct host_addr addrs[MPATH_PATHS_MAX];
	unsigned addr_count;
	uint32_t blocks;
};

static void fail(const char *what, const char *value)
{
	fprintf(stderr, "weft_torture: %s: %s\n", what, value);
	exit(2);
}

static void take_option(struct options *options, int c, const char *value)
{
	enum host_profile profile;
	char error[256];

	switch (c) {
	case 'p':
		if (options->addr_count == MPATH_PATHS_MAX ||
		    net_addr_parse(value, 4420, &options->addrs[options->addr_count++].net) != 0)
			fail("not an address with a port", value);
		break;
	case 'n':
		snprintf(options->config.subsystem_nqn, NVME_NQN_BYTES, "%s", value);
		break;
	case 'N':
		torture.nsid = (uint32_t)strtoul(value, NULL, 0);
		break;
	case 'b':
		options->blocks = (uint32_t)strtoul(value, NULL, 0);
		break;
	case 'd':
		torture.depth = (unsigned)strtoul(value, NULL, 0);
		if (torture.depth == 0 || torture.depth > DEPTH_MAX)
			fail("a depth of 1 to 256", value);
		break;
	case 'P':
		if (host_profile_parse(value, &profile) != 0)
			fail("no such profile", value);
		host_timeouts_fill(&options->config.timeouts, profile);
		break;
	case 'S':
		if (host_timeouts_set(&options->config.timeouts, value, error, sizeof(error)) != 0)
			fail(error, value);
		break;
	case 'o':
		if (path_policy_parse(value, &options->config.policy) != 0)
			fail("no such policy", value);
		break;
	case 's':
		options->config.seed = strtoull(value, NULL, 0);
		break;
	case 'h': /* in hundredths of a percent */
		options->config.hedge.percentile = (uint32_t)strtoul(value, NULL, 0);
		options->config.hedge.extra_percent = 100;
		break;
	case 'D':
		options->config.wants_header_digest = true;
		options->config.wants_data_digest = true;
		break;
	case 'z':
		options->config.zero_copy_min_bytes = (uint32_t)strtoul(value, NULL, 0);
		break;
	case 'u':
		options->config.is_fencing_off = true;
		break;
	case 'H':
		snprintf(options->config.host_nqn, NVME_NQN_BYTES, "%s", value);
		/* One identifier for each name. */
		for (unsigned i = 0; value[i] != '\0'; i++)
			options->config.host_id.bytes[1 + i % 15] ^= (uint8_t)value[i];
		break;
	case 'r':
		torture.rate = (uint32_t)strtoul(value, NULL, 0);
		if (torture.rate < 1000 / RATE_STEP_MS)
			fail("a rate of 100 or more", value);
		break;
	case 'Z':
		torture.wants_zeroes = true;
		break;
	default:
		exit(2);
	}
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"path", required_argument, NULL, 'p'},
		{"nqn", required_argument, NULL, 'n'},
		{"nsid", required_argument, NULL, 'N'},
		{"blocks", required_argument, NULL, 'b'},
		{"depth", required_argument, NULL, 'd'},
		{"profile", required_argument, NULL, 'P'},
		{"set", required_argument, NULL, 'S'},
		{"policy", required_argument, NULL, 'o'},
		{"seed", required_argument, NULL, 's'},
		{"unsafe", no_argument, NULL, 'u'},
		{"hedge", required_argument, NULL, 'h'},
		{"digests", no_argument, NULL, 'D'},
		{"zero-copy", required_argument, NULL, 'z'},
		{"host-nqn", required_argument, NULL, 'H'},
		{"rate", required_argument, NULL, 'r'},
		{"zeroes", no_argument, NULL, 'Z'},
		{0},
	};
	int c;

	host_timeouts_fill(&options->config.timeouts, HOST_PROFILE_TRAINING);
	options->config.policy = PATH_POLICY_ROUND_ROBIN;
	options->blocks = 512;
	torture.depth = 32;
	torture.nsid = 1;
	snprintf(options->config.subsystem_nqn, NVME_NQN_BYTES, "%s", DEFAULT_NQN);
	snprintf(options->config.host_nqn, NVME_NQN_BYTES, "nqn.2026-11.io.weft:torture");
	options->config.host_id.bytes[0] = 1;
	options->config.numa_node = -1;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		take_option(options, c, optarg);
	if (options->addr_count == 0)
		fail("missing", "--path ADDR:PORT");
}

struct opening {
	struct reactor_msg msg;
	struct options options;
};

static void on_open(struct reactor_msg *msg)
{
	static const struct mpath_callbacks callbacks = {
		.ready = on_ready,
		.path_changed = on_path_changed,
	};
	struct options *options = &container_of(msg, struct opening, msg)->options;
	int res = mpath_open(torture.reactor, &options->config, options->addrs, options->addr_count,
			     &callbacks, &torture, &torture.mpath);

	if (res != 0)
		fail("cannot open the paths", strerror(-res));
}

int main(int argc, char **argv)
{
	static struct opening opening;
	struct options *options = &opening.options;
	struct reactor_config reactor_config = {.cpu = -1};

	parse(argc, argv, options);
	prng_seed(&torture.prng, options->config.seed);
	list_init(&torture.idle);
	if (block_model_init(&torture.model, options->blocks) != 0 ||
	    reactor_create(&reactor_config, &torture.reactor) != 0)
		fail("cannot start", strerror(errno));
	reactor_timer_init(torture.reactor, &torture.rate_timer, rate_step);
	for (unsigned i = 0; i < torture.depth; i++) {
		struct task *task = &torture.tasks[i];

		task->torture = &torture;
		task->data = aligned_alloc(4096, RUN_BLOCKS * MODEL_BLOCK_BYTES);
		if (!task->data)
			fail("cannot start", "out of memory");
		list_push_back(&torture.idle, &task->io.node);
	}
	reactor_post(torture.reactor, &opening.msg, on_open);
	if (orders_start(torture.reactor, on_order) != 0)
		fail("cannot start", "no thread for orders");
	reactor_run(torture.reactor);
	orders_join();
	reactor_destroy(torture.reactor);
	for (unsigned i = 0; i < torture.depth; i++)
		free(torture.tasks[i].data);
	block_model_destroy(&torture.model);
	return torture.wrong != 0;
}
