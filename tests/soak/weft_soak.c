/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of the soak: very many hosts of one target in one process. Each has its own name and
 * several I/O queues. A host connects, reads and writes stamped blocks on every queue for a random
 * time, leaves in order or as after a power cut, stays away, and returns.
 *
 *     weft_soak --addr ADDR:PORT --nqn NQN [--hosts N] [--queues N] [--life MS] [--away MS]
 *               [--think MS] [--bound MS] [--seed N]
 *
 * Prints "ready". Orders on standard input, each answered with one line of JSON when it is done:
 *     fill     all hosts connect and stay; answered when all are connected and every queue has
 *              had an answer since
 *     churn    from now on hosts leave and return; answered at once
 *     report   what happened so far
 *     stop     all hosts leave in order; then exits: 0 no error, 1 an error
 *
 * Errors are: a connect that fails, a lost controller (a command without an answer for --bound
 * milliseconds fails its controller), a status other than success, a block with data that no host
 * wrote there (tests/torture/block_model.h). One reactor on the main thread; a second thread reads
 * the orders.
 */
#include "../torture/block_model.h"
#include "../torture/orders.h"

#include "base/clock.h"
#include "base/histogram.h"
#include "host/host.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define QUEUES_MAX     16
#define CONNECTING_MAX 64 /* at once: more would overrun the listener */
#define REGIONS        8  /* lives until a region with cut-off writes is used again */
#define FAULTS_SHOWN   20
#define FILES_BESIDE   64
#define NSID           1
#define KATO_MS        60000
#define QUEUE_ENTRIES  8

enum host_state {
	HOST_AWAY,
	HOST_WAITING, /* for its turn to connect */
	HOST_CONNECTING,
	HOST_WORKING,
	HOST_DRAINING, /* sends nothing more, then leaves in order */
	HOST_LEAVING,
};

struct soak_queue {
	struct host_cmd cmd;
	struct soak_host *host;
	struct reactor_timer timer; /* the next command */
	uint8_t *data;
	uint32_t block;
	uint64_t generation; /* of a write in flight */
	uint64_t begun_ns;
	bool is_busy;
	bool has_answered; /* since the last fill */
};

struct soak_host {
	struct soak *soak;
	struct host_ctrl *ctrl;
	struct reactor_timer timer; /* the end of its life, or of its absence */
	struct list node;           /* of waiting hosts */
	enum host_state state;
	unsigned index;
	unsigned life;
	unsigned busy;
	struct soak_queue queues[QUEUES_MAX];
};

struct soak {
	struct reactor *reactor;
	struct host_config config; /* but for the name */
	struct soak_host *hosts;
	unsigned host_count;
	unsigned queue_count;
	uint32_t life_ms, away_ms, think_ms;
	struct prng prng;
	struct block_model model;
	struct list waiting;
	unsigned connecting;
	unsigned working;
	bool is_churning;
	bool is_filling; /* the order "fill" waits for its answer */
	bool is_stopping;

	uint64_t connects, orderly, cuts, cuts_early;
	uint64_t commands, unanswered; /* unanswered: of hosts that cut their power */
	uint64_t wrong;
	struct histogram latency, connecting_time;
};

static struct soak soak;

static void host_come(struct soak_host *host);
static void host_leave(struct soak_host *host);
static void soak_settle(struct soak *s);

static void wrong(struct soak *s, const struct soak_host *host, const char *what)
{
	if (s->wrong++ < FAULTS_SHOWN)
		fprintf(stderr, "WRONG: host %u, life %u: %s\n", host->index, host->life, what);
}

/* Uniform from 1 to twice the mean. */
static void arm(struct soak *s, struct reactor_timer *timer, uint32_t mean_ms)
{
	uint64_t wait_us = 1 + prng_below(&s->prng, (uint64_t)mean_ms * 2000 + 1);

	reactor_timer_arm(timer, reactor_now_ns(s->reactor) + wait_us * NS_PER_US);
}

/* ---- commands ------------------------------------------------------------------------------- */

static void judge(struct soak *s, struct soak_queue *queue, bool is_ok)
{
	char text[160];

	if (queue->generation != 0)
		block_model_wrote(&s->model, queue->block, 1, queue->generation, is_ok,
				  queue->cmd.may_have_run);
	else if (is_ok && block_model_judge(&s->model, queue->block, 1, queue->data, text,
					    sizeof(text)) != MODEL_RIGHT)
		wrong(s, queue->host, text);
}

static void on_done(struct host_cmd *cmd)
{
	struct soak_queue *queue = container_of(cmd, struct soak_queue, cmd);
	struct soak_host *host = queue->host;
	struct soak *s = host->soak;
	char text[64];

	queue->is_busy = false;
	host->busy--;
	judge(s, queue, nvme_status_is_ok(cmd->status));
	if (host->state == HOST_LEAVING) {
		s->unanswered++;
		return;
	}
	s->commands++;
	histogram_record(&s->latency, reactor_clock_ns(s->reactor) - queue->begun_ns);
	if (!nvme_status_is_ok(cmd->status)) {
		snprintf(text, sizeof(text), "status %#x", cmd->status.value);
		wrong(s, host, text);
	}
	queue->has_answered = true;
	if (host->state == HOST_WORKING)
		arm(s, &queue->timer, s->think_ms);
	else if (host->busy == 0)
		host_leave(host);
	soak_settle(s);
}

static void queue_send(struct reactor_timer *timer)
{
	struct soak_queue *queue = container_of(timer, struct soak_queue, timer);
	struct soak_host *host = queue->host;
	struct soak *s = host->soak;
	bool is_write = prng_one_in(&s->prng, 2);

	queue->generation =
		is_write ? block_model_stamp(&s->model, queue->block, 1, queue->data) : 0;
	if (is_write)
		host_cmd_write(&queue->cmd, NSID, queue->block, 1, queue->data, MODEL_BLOCK_BYTES);
	else
		host_cmd_read(&queue->cmd, NSID, queue->block, 1, queue->data, MODEL_BLOCK_BYTES);
	queue->cmd.done = on_done;
	queue->is_busy = true;
	queue->begun_ns = reactor_clock_ns(s->reactor);
	host->busy++;
	host_submit_io(host->ctrl, (unsigned)(queue - host->queues), &queue->cmd);
}

/* ---- coming and going ----------------------------------------------------------------------- */

static void connect_more(struct soak *s);

/* The host is away, and returns when its timer fires. */
static void host_away(struct soak_host *host)
{
	struct soak *s = host->soak;

	host->ctrl = NULL;
	host->state = HOST_AWAY;
	host->life++;
	if (s->is_churning)
		arm(s, &host->timer, s->away_ms);
	else if (!s->is_stopping)
		host_come(host);
	soak_settle(s);
}

static void on_gone(void *arg)
{
	host_away(arg);
}

static void host_quiet(struct soak_host *host)
{
	reactor_timer_cancel(&host->timer);
	for (unsigned i = 0; i < host->soak->queue_count; i++)
		reactor_timer_cancel(&host->queues[i].timer);
}

static void host_leave(struct soak_host *host)
{
	host->soak->working--;
	host->soak->orderly++;
	host->state = HOST_LEAVING;
	host_disconnect(host->ctrl, on_gone, host);
}

static void host_drain(struct soak_host *host)
{
	host_quiet(host);
	host->state = HOST_DRAINING;
	if (host->busy == 0)
		host_leave(host);
}

static void host_cut(struct soak_host *host)
{
	host_quiet(host);
	host->soak->working--;
	host->soak->cuts++;
	host->state = HOST_LEAVING;
	host_abandon(host->ctrl, on_gone, host);
}

static void host_cut_early(struct soak_host *host)
{
	host->soak->connecting--;
	host->soak->cuts_early++;
	host->state = HOST_LEAVING;
	host_abandon(host->ctrl, on_gone, host);
	connect_more(host->soak);
}

static void on_host_timer(struct reactor_timer *timer)
{
	struct soak_host *host = container_of(timer, struct soak_host, timer);

	if (host->state == HOST_AWAY)
		host_come(host);
	else if (!host->soak->is_churning)
		return; /* it stays */
	else if (host->state == HOST_CONNECTING)
		host_cut_early(host);
	else if (prng_one_in(&host->soak->prng, 2))
		host_drain(host);
	else
		host_cut(host);
}

static void host_work(struct soak_host *host)
{
	struct soak *s = host->soak;
	uint32_t region = (host->life % REGIONS) * s->host_count * s->queue_count;

	s->working++;
	host->state = HOST_WORKING;
	for (unsigned i = 0; i < s->queue_count; i++) {
		struct soak_queue *queue = &host->queues[i];

		queue->block = region + host->index * s->queue_count + i;
		arm(s, &queue->timer, s->think_ms);
	}
	if (s->is_churning)
		arm(s, &host->timer, s->life_ms);
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct soak_host *host = arg;
	struct soak *s = host->soak;

	if (host->state == HOST_LEAVING)
		return; /* cut early; on_gone follows */
	s->connecting--;
	reactor_timer_cancel(&host->timer);
	if (res != 0) {
		wrong(s, host, error->text);
		host_away(host);
	} else {
		s->connects++;
		histogram_record(&s->connecting_time,
				 reactor_clock_ns(s->reactor) - host->queues[0].begun_ns);
		if (host_ctrl_io_queues(ctrl) != s->queue_count)
			wrong(s, host, "it did not get all its queues");
		host_work(host);
	}
	connect_more(s);
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct soak_host *host = arg;

	wrong(host->soak, host, error->text);
	host_quiet(host);
	host->soak->working--;
	host->state = HOST_LEAVING;
	host_disconnect(ctrl, on_gone, host);
}

static void host_connect_now(struct soak_host *host)
{
	static const struct host_callbacks callbacks = {.connected = on_connected, .lost = on_lost};
	struct soak *s = host->soak;
	struct host_config config = s->config;

	snprintf(config.host_nqn, sizeof(config.host_nqn), "nqn.2026-11.io.weft:soak-host-%u",
		 host->index);
	config.host_id =
		(struct uuid){.bytes = {0x50, (uint8_t)(host->index >> 16),
					(uint8_t)(host->index >> 8), (uint8_t)host->index}};
	host->state = HOST_CONNECTING;
	host->queues[0].begun_ns = reactor_clock_ns(s->reactor);
	if (host_connect(s->reactor, &config, &callbacks, host, &host->ctrl) != 0) {
		wrong(s, host, "out of memory");
		host_away(host);
		return;
	}
	s->connecting++;
	if (s->is_churning && prng_one_in(&s->prng, 8))
		arm(s, &host->timer, 20);
}

static void connect_more(struct soak *s)
{
	while (s->connecting < CONNECTING_MAX && !list_empty(&s->waiting))
		host_connect_now(list_entry(list_pop_front(&s->waiting), struct soak_host, node));
}

static void host_come(struct soak_host *host)
{
	host->state = HOST_WAITING;
	list_push_back(&host->soak->waiting, &host->node);
	connect_more(host->soak);
}

/* ---- orders --------------------------------------------------------------------------------- */

static void report(struct soak *s)
{
	uint64_t oldest_ns = 0, now_ns = reactor_clock_ns(s->reactor);
	unsigned busy = 0;

	for (unsigned i = 0; i < s->host_count * s->queue_count; i++) {
		const struct soak_queue *queue =
			&s->hosts[i / s->queue_count].queues[i % s->queue_count];

		busy += queue->is_busy;
		if (queue->is_busy && now_ns - queue->begun_ns > oldest_ns)
			oldest_ns = now_ns - queue->begun_ns;
	}
	printf("{\"working\": %u, \"busy\": %u, \"connections\": %u, \"connects\": %llu, "
	       "\"orderly\": %llu, "
	       "\"cuts\": %llu, \"cuts_early\": %llu, \"commands\": %llu, \"unanswered\": %llu, "
	       "\"oldest_us\": %llu, \"wrong\": %llu, \"p50_us\": %llu, \"p99_us\": %llu, "
	       "\"max_us\": %llu, \"connect_p50_us\": %llu, \"connect_max_us\": %llu}\n",
	       s->working, busy, s->working * (1 + s->queue_count), (unsigned long long)s->connects,
	       (unsigned long long)s->orderly, (unsigned long long)s->cuts,
	       (unsigned long long)s->cuts_early, (unsigned long long)s->commands,
	       (unsigned long long)s->unanswered, (unsigned long long)(oldest_ns / NS_PER_US),
	       (unsigned long long)s->wrong,
	       (unsigned long long)(histogram_percentile(&s->latency, 50) / NS_PER_US),
	       (unsigned long long)(histogram_percentile(&s->latency, 99) / NS_PER_US),
	       (unsigned long long)(histogram_percentile(&s->latency, 100) / NS_PER_US),
	       (unsigned long long)(histogram_percentile(&s->connecting_time, 50) / NS_PER_US),
	       (unsigned long long)(histogram_percentile(&s->connecting_time, 100) / NS_PER_US));
	fflush(stdout);
}

static bool all_answered(const struct soak *s)
{
	for (unsigned i = 0; i < s->host_count * s->queue_count; i++) {
		if (!s->hosts[i / s->queue_count].queues[i % s->queue_count].has_answered)
			return false;
	}
	return true;
}

/* Answers an order that waits for the present state. */
static void soak_settle(struct soak *s)
{
	if (s->is_filling && s->working == s->host_count && all_answered(s)) {
		s->is_filling = false;
		report(s);
	}
	if (!s->is_stopping)
		return;
	for (unsigned i = 0; i < s->host_count; i++) {
		if (s->hosts[i].state != HOST_AWAY)
			return;
	}
	report(s);
	reactor_stop(s->reactor);
	s->is_stopping = false;
}

static void soak_fill(struct soak *s)
{
	s->is_churning = false;
	s->is_filling = true;
	for (unsigned i = 0; i < s->host_count; i++) {
		struct soak_host *host = &s->hosts[i];

		for (unsigned k = 0; k < s->queue_count; k++)
			host->queues[k].has_answered = false;
		if (host->state != HOST_AWAY)
			continue;
		reactor_timer_cancel(&host->timer);
		host_come(host);
	}
}

static void soak_churn(struct soak *s)
{
	s->is_churning = true;
	for (unsigned i = 0; i < s->host_count; i++) {
		if (s->hosts[i].state == HOST_WORKING)
			arm(s, &s->hosts[i].timer, s->life_ms);
	}
	report(s);
}

static void soak_stop(struct soak *s)
{
	s->is_churning = false;
	s->is_stopping = true;
	for (unsigned i = 0; i < s->host_count; i++) {
		struct soak_host *host = &s->hosts[i];

		if (host->state == HOST_WORKING)
			host_drain(host);
		else if (host->state == HOST_CONNECTING)
			host_cut_early(host);
		else if (host->state == HOST_WAITING)
			host->state = HOST_AWAY;
		else if (host->state == HOST_AWAY)
			reactor_timer_cancel(&host->timer);
	}
	list_init(&s->waiting);
	soak_settle(s);
}

static void on_order(struct reactor_msg *msg)
{
	struct order *order = container_of(msg, struct order, msg);

	if (strcmp(order->text, "fill") == 0)
		soak_fill(&soak);
	else if (strcmp(order->text, "churn") == 0)
		soak_churn(&soak);
	else if (strcmp(order->text, "stop") == 0)
		soak_stop(&soak);
	else
		report(&soak);
	free(order);
}

/* ---- start ---------------------------------------------------------------------------------- */

static void fail(const char *what, const char *value)
{
	fprintf(stderr, "weft_soak: %s: %s\n", what, value);
	exit(2);
}

static uint32_t number(const char *value)
{
	char *end;
	unsigned long got = strtoul(value, &end, 0);

	if (*end != '\0' || end == value || got == 0 || got > 100000000)
		fail("not a number from 1 on", value);
	return (uint32_t)got;
}

static void take_option(struct soak *s, int c, const char *value)
{
	switch (c) {
	case 'a':
		if (net_addr_parse(value, 4420, &s->config.addr.net) != 0)
			fail("not an address with a port", value);
		break;
	case 'n':
		snprintf(s->config.subsystem_nqn, NVME_NQN_BYTES, "%s", value);
		break;
	case 'h':
		s->host_count = number(value);
		break;
	case 'q':
		s->queue_count = number(value);
		if (s->queue_count > QUEUES_MAX)
			fail("at most 16 queues", value);
		break;
	case 'l':
		s->life_ms = number(value);
		break;
	case 'w':
		s->away_ms = number(value);
		break;
	case 't':
		s->think_ms = number(value);
		break;
	case 'b':
		s->config.command_timeout_ms = s->config.connect_timeout_ms = number(value);
		break;
	case 's':
		prng_seed(&s->prng, strtoull(value, NULL, 0));
		break;
	default:
		exit(2);
	}
}

static void parse(struct soak *s, int argc, char **argv)
{
	static const struct option names[] = {
		{"addr", required_argument, NULL, 'a'},  {"nqn", required_argument, NULL, 'n'},
		{"hosts", required_argument, NULL, 'h'}, {"queues", required_argument, NULL, 'q'},
		{"life", required_argument, NULL, 'l'},  {"away", required_argument, NULL, 'w'},
		{"think", required_argument, NULL, 't'}, {"bound", required_argument, NULL, 'b'},
		{"seed", required_argument, NULL, 's'},  {0},
	};
	int c;

	*s = (struct soak){.host_count = 1000, .queue_count = 4};
	s->life_ms = 20000;
	s->away_ms = 2000;
	s->think_ms = 1000;
	s->config.command_timeout_ms = s->config.connect_timeout_ms = 60000;
	s->config.kato_ms = KATO_MS;
	s->config.io_queue_size = QUEUE_ENTRIES;
	prng_seed(&s->prng, 1);
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		take_option(s, c, optarg);
	if (s->config.subsystem_nqn[0] == '\0' || s->config.addr.net.len_bytes == 0)
		fail("missing", "--addr ADDR:PORT or --nqn NQN");
	s->config.io_queues = s->queue_count;
}

static void raise_files(const struct soak *s)
{
	rlim_t wanted = (rlim_t)s->host_count * (1 + s->queue_count) + FILES_BESIDE;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
		return;
	if (limit.rlim_max < wanted)
		fail("the limit of open files is too low", "raise it: ulimit -Hn");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		fail("the limit of open files", strerror(errno));
}

static void make_hosts(struct soak *s)
{
	s->hosts = calloc(s->host_count, sizeof(*s->hosts));
	if (!s->hosts)
		fail("cannot start", "out of memory");
	for (unsigned i = 0; i < s->host_count; i++) {
		struct soak_host *host = &s->hosts[i];

		host->soak = s;
		host->index = i;
		reactor_timer_init(s->reactor, &host->timer, on_host_timer);
		for (unsigned k = 0; k < s->queue_count; k++) {
			host->queues[k].host = host;
			host->queues[k].data = aligned_alloc(4096, MODEL_BLOCK_BYTES);
			if (!host->queues[k].data)
				fail("cannot start", "out of memory");
			reactor_timer_init(s->reactor, &host->queues[k].timer, queue_send);
		}
	}
}

static void free_hosts(struct soak *s)
{
	for (unsigned i = 0; i < s->host_count * s->queue_count; i++)
		free(s->hosts[i / s->queue_count].queues[i % s->queue_count].data);
	free(s->hosts);
}

int main(int argc, char **argv)
{
	struct reactor_config reactor_config = {.cpu = -1};
	struct soak *s = &soak;

	parse(s, argc, argv);
	raise_files(s);
	list_init(&s->waiting);
	histogram_init(&s->latency);
	histogram_init(&s->connecting_time);
	if (block_model_init(&s->model, REGIONS * s->host_count * s->queue_count) != 0 ||
	    reactor_create(&reactor_config, &s->reactor) != 0)
		fail("cannot start", strerror(errno));
	make_hosts(s);
	puts("ready");
	fflush(stdout);
	if (orders_start(s->reactor, on_order) != 0)
		fail("cannot start", "no thread for orders");
	reactor_run(s->reactor);
	orders_join();
	reactor_destroy(s->reactor);
	free_hosts(s);
	block_model_destroy(&s->model);
	return s->wrong != 0;
}
