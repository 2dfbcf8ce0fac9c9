/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the raw ceiling: loads `echo server` and prints one JSON object.
 *
 * Closed loop by default: every answer is followed by the next request, at most `depth` in flight
 * per connection. With --rate the requests of all connections are due at even intervals, whatever
 * the server does, and latency counts from the time at which a request was due. Spins, or blocks in
 * ppoll with --sleep. One thread.
 */
#include "echo_client.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_NS (10 * NS_PER_S) /* longest wait for the last answers */

struct pace {
	uint64_t start_ns;
	uint64_t asked;
	unsigned next_conn;
};

/* ---- the loop ------------------------------------------------------------------------------- */

static enum echo_op client_op(const struct client *client)
{
	return client->options.is_write ? ECHO_WRITE : ECHO_READ;
}

static uint64_t pace_next_ns(const struct client *client, const struct pace *pace)
{
	return pace->start_ns +
	       (uint64_t)((double)pace->asked * 1e9 / (double)client->options.rate);
}

/* Sends all due requests that find a free slot; the rest stays due, with its original time. */
static void pace_ask(struct client *client, struct pace *pace)
{
	const struct client_options *options = &client->options;

	while (client->is_issuing && client->now_ns >= pace_next_ns(client, pace)) {
		struct client_conn *conn = NULL;

		for (uint64_t i = 0; i < options->connections; i++) {
			conn = &client->conns[pace->next_conn];
			pace->next_conn = (pace->next_conn + 1) % (unsigned)options->connections;
			if (conn->free_count > 0)
				break;
			conn = NULL;
		}
		if (!conn)
			return;
		client_conn_ask(client, conn, client_op(client), client_next_offset(client),
				pace_next_ns(client, pace));
		pace->asked++;
	}
}

static void client_wait(const struct client *client, struct pollfd *polls, uint64_t until_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec timeout = {.tv_sec = (time_t)(left_ns / NS_PER_S),
				   .tv_nsec = (long)(left_ns % NS_PER_S)};

	for (uint64_t i = 0; i < client->options.connections; i++)
		polls[i] = (struct pollfd){
			.fd = client->conns[i].fd,
			.events = (short)(POLLIN | (client->conns[i].out.count > 0 ? POLLOUT : 0))};
	ppoll(polls, client->options.connections, &timeout, NULL);
}

/* Runs until end_ns or, when no more requests are issued, until none is in flight. */
static int client_run(struct client *client, struct pace *pace, uint64_t end_ns)
{
	const struct client_options *options = &client->options;
	struct pollfd *polls = calloc(options->connections, sizeof(*polls));
	int res = 0;

	CHECK(polls != NULL);
	client->now_ns = clock_monotonic_ns();
	while (res == 0 && client->now_ns < end_ns && (client->is_issuing || client->under_way)) {
		if (options->rate > 0)
			pace_ask(client, pace);
		for (uint64_t i = 0; i < options->connections && res == 0; i++)
			res = client_conn_turn(client, &client->conns[i]);
		if (options->is_sleeping && res == 0 && (client->is_issuing || client->under_way)) {
			uint64_t next_ns = options->rate > 0 && client->is_issuing
						   ? pace_next_ns(client, pace)
						   : end_ns;

			client_wait(client, polls, next_ns < end_ns ? next_ns : end_ns);
		}
		client->now_ns = clock_monotonic_ns();
	}
	free(polls);
	return res;
}

static int client_drain(struct client *client)
{
	int res;

	client->is_issuing = false;
	res = client_run(client, NULL, clock_monotonic_ns() + DRAIN_NS);
	if (res == 0 && client->under_way > 0) {
		snprintf(client->error, sizeof(client->error), "answers are missing");
		res = -ETIMEDOUT;
	}
	return res;
}

/* --verify: reads back what was written. */
static int client_read_back(struct client *client)
{
	struct client_conn *conn = &client->conns[0];
	uint64_t blocks = client->options.size_bytes / client->options.io_bytes;
	int res = 0;

	client->is_reading_back = true;
	for (uint64_t block = 0; block < blocks && res == 0; block++) {
		if (!client->written[block])
			continue;
		client_conn_ask(client, conn, ECHO_READ, block * client->options.io_bytes,
				client->now_ns);
		if (conn->free_count == 0)
			res = client_drain(client);
	}
	return res == 0 ? client_drain(client) : res;
}

/* ---- the report ----------------------------------------------------------------------------- */

static double us_of(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static void report_print(const struct client *client, uint64_t elapsed_ns, uint64_t cpu_ns)
{
	const struct histogram *latency = &client->latency;
	double iops = (double)client->ios * 1e9 / (double)elapsed_ns;

	printf("{\"iops\": %.1f, \"mib_per_s\": %.2f, \"latency_us\": {\"min\": %.2f, "
	       "\"mean\": %.2f, \"p50\": %.2f, \"p99\": %.2f, \"p99_9\": %.2f, \"max\": %.2f}, "
	       "\"cpu_us_per_io\": %.3f}\n",
	       iops, iops * (double)client->options.io_bytes / 1048576.0,
	       client->ios > 0 ? us_of(latency->min_ns) : 0.0, us_of(histogram_mean(latency)),
	       us_of(histogram_percentile(latency, 50)), us_of(histogram_percentile(latency, 99)),
	       us_of(histogram_percentile(latency, 99.9)), us_of(latency->max_ns),
	       client->ios > 0 ? us_of(cpu_ns) / (double)client->ios : 0.0);
}

static int client_measure(struct client *client)
{
	const struct client_options *options = &client->options;
	uint64_t start_ns = clock_monotonic_ns(), cpu_ns, elapsed_ns;
	struct pace pace = {.start_ns = start_ns};
	int res;

	client->is_issuing = true;
	for (uint64_t i = 0; i < options->connections && options->rate == 0; i++)
		while (client->conns[i].free_count > 0)
			client_conn_ask(client, &client->conns[i], client_op(client),
					client_next_offset(client), start_ns);
	res = client_run(client, &pace, start_ns + options->warmup_ms * NS_PER_MS);
	if (res != 0)
		return res;
	client->ios = 0;
	histogram_init(&client->latency);
	cpu_ns = clock_process_cpu_ns();
	start_ns = clock_monotonic_ns();
	res = client_run(client, &pace, start_ns + options->time_ms * NS_PER_MS);
	/* A short time can pass without a CPU: then continue until the first answer. */
	while (res == 0 && client->ios == 0 && client->under_way > 0)
		res = client_run(client, &pace, clock_monotonic_ns() + NS_PER_MS);
	elapsed_ns = clock_monotonic_ns() - start_ns;
	cpu_ns = clock_process_cpu_ns() - cpu_ns;
	struct client result = {
		.options = *options, .ios = client->ios, .latency = client->latency};
	if (res == 0)
		res = client_drain(client);
	if (res == 0 && options->wants_verify && options->is_write)
		res = client_read_back(client);
	if (res == 0)
		report_print(&result, elapsed_ns, cpu_ns);
	return res;
}

static int client_start(struct client *client)
{
	const struct client_options *options = &client->options;
	int res = 0;

	echo_raise_file_limit();
	prng_seed(&client->prng, 1);
	client->bulk = aligned_alloc(4096, ECHO_BULK_BYTES);
	client->conns = calloc(options->connections, sizeof(*client->conns));
	client->written = calloc(options->size_bytes / options->io_bytes, 1);
	CHECK(client->bulk && client->conns && client->written);
	histogram_init(&client->latency);
	for (uint64_t i = 0; i < options->connections; i++)
		client->conns[i].fd = -1;
	for (uint64_t i = 0; i < options->connections && res == 0; i++)
		res = client_conn_open(client, &client->conns[i]);
	if (res != 0)
		snprintf(client->error, sizeof(client->error), "cannot connect: %s",
			 strerror(-res));
	return res;
}

/* ---- the command line ----------------------------------------------------------------------- */

static void help_print(void)
{
	printf("Usage: echo client --connect ADDR:PORT [OPTION]...\n\n"
	       "Loads an echo server and prints the result as one JSON object.\n\n"
	       "      --connect ADDR:PORT   the server\n"
	       "      --rw MODE             read, write, randread, randwrite (randread)\n"
	       "      --bs SIZE             bytes per request, up to 1M, a multiple of 8 (4k)\n"
	       "      --depth N             requests under way per connection, up to %u (1)\n"
	       "      --connections N       how many (1)\n"
	       "      --time DURATION       how long: 2s, 500ms (2s)\n"
	       "      --warmup DURATION     run first without counting (300ms)\n"
	       "      --size SIZE           of the region used; the server must have it (256M)\n"
	       "      --rate N              paced: N requests per second over all connections,\n"
	       "                            latency from the time each was meant to leave\n"
	       "      --sleep               block between turns instead of spinning\n"
	       "      --verify              check all data; what was written is read back. Nobody "
	       "may\n"
	       "                            have written there without it\n"
	       "  -h, --help                this text\n\n"
	       "Exit status: 0 all well, 1 no connection or a wrong answer, 2 wrong usage.\n",
	       ECHO_DEPTH_MAX);
}

static const struct option long_options[] = {
	{"connect", required_argument, NULL, 'c'},
	{"rw", required_argument, NULL, 'r'},
	{"bs", required_argument, NULL, 'b'},
	{"depth", required_argument, NULL, 'd'},
	{"connections", required_argument, NULL, 'n'},
	{"time", required_argument, NULL, 't'},
	{"warmup", required_argument, NULL, 'w'},
	{"size", required_argument, NULL, 'z'},
	{"rate", required_argument, NULL, 'R'},
	{"sleep", no_argument, NULL, 's'},
	{"verify", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int mode_take(struct client_options *options, const char *value)
{
	options->is_random = strncmp(value, "rand", 4) == 0;
	if (options->is_random)
		value += 4;
	options->is_write = strcmp(value, "write") == 0;
	return options->is_write || strcmp(value, "read") == 0 ? 0 : -EINVAL;
}

static int option_take(struct client_options *options, int flag, const char *value)
{
	switch (flag) {
	case 'c':
		return net_addr_parse(value, 0, &options->addr);
	case 'r':
		return mode_take(options, value);
	case 'b':
		return text_parse_size(value, &options->io_bytes);
	case 'd':
		return text_parse_u64(value, ECHO_DEPTH_MAX, &options->depth);
	case 'n':
		return text_parse_u64(value, 65536, &options->connections);
	case 't':
		return text_parse_duration_ms(value, &options->time_ms);
	case 'w':
		return text_parse_duration_ms(value, &options->warmup_ms);
	case 'z':
		return text_parse_size(value, &options->size_bytes);
	case 'R':
		return text_parse_u64(value, 1000000000, &options->rate);
	case 's':
		options->is_sleeping = true;
		return 0;
	case 'v':
		options->wants_verify = true;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Checks combinations of options; returns the error, or NULL. */
static const char *options_wrong(const struct client_options *options)
{
	if (options->addr.len_bytes == 0 || net_addr_port(&options->addr) == 0)
		return "--connect ADDR:PORT is missing";
	if (options->io_bytes == 0 || options->io_bytes > ECHO_IO_MAX_BYTES ||
	    options->io_bytes % 8 != 0)
		return "--bs must be a multiple of 8 and at most 1M";
	if (options->depth == 0 || options->connections == 0 || options->time_ms == 0)
		return "--depth, --connections and --time must not be 0";
	if (options->size_bytes < options->io_bytes)
		return "--size must hold at least one block";
	return NULL;
}

int echo_client_main(int argc, char **argv)
{
	struct client client = {.options = {.is_random = true,
					    .io_bytes = 4096,
					    .size_bytes = 256 << 20,
					    .depth = 1,
					    .connections = 1,
					    .time_ms = 2000,
					    .warmup_ms = 300}};
	const char *wrong;
	int flag, which = 0, res;

	while ((flag = getopt_long(argc, argv, "h", long_options, &which)) != -1) {
		if (flag == 'h') {
			help_print();
			return 0;
		}
		if (flag == '?')
			return echo_usage_error("unknown option, or one without its value");
		if (option_take(&client.options, flag, optarg) != 0)
			return echo_usage_error("--%s: \"%s\" is not understood",
						long_options[which].name, optarg);
	}
	if (optind < argc)
		return echo_usage_error("what is \"%s\"?", argv[optind]);
	wrong = options_wrong(&client.options);
	if (wrong)
		return echo_usage_error("%s", wrong);
	res = client_start(&client);
	if (res == 0)
		res = client_measure(&client);
	if (res != 0)
		fprintf(stderr, "echo: %s\n", client.error);
	for (uint64_t i = 0; i < client.options.connections; i++)
		client_conn_close(&client, &client.conns[i]);
	free(client.conns);
	free(client.bulk);
	free(client.written);
	return res == 0 ? 0 : 1;
}
