/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: number and depth as requested, with the counters of each; and the placement of their
 * reactors, on a made-up sysfs that puts the loopback interface on a memory node.
 */
#include "lib_world.h"

#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>

#define READS 600

static struct weft_subsystem *open_with(struct weft *weft, unsigned queues, unsigned queue_size)
{
	struct weft_subsystem *subsystem = NULL;
	struct weft_open_options options;
	struct weft_error error;
	struct weft_path path;

	world_open_options(&options, &path);
	options.queues = queues;
	options.queue_size = queue_size;
	if (weft_open(weft, &options, &subsystem, &error) != 0) {
		printf("Bail out! weft_open: %s\n", error.text);
		exit(1);
	}
	return subsystem;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static unsigned ended_count;

static void on_read(struct weft_request *request)
{
	pthread_mutex_lock(&lock);
	ended_count += request->result == 0;
	pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
}

/* Many reads at once, on both reactors. */
static void read_many(struct weft_ns *ns)
{
	static struct weft_request requests[READS];
	static uint8_t bytes[READS][512];
	static struct iovec iovs[READS];

	ended_count = 0;
	for (unsigned i = 0; i < READS; i++) {
		iovs[i] = (struct iovec){bytes[i], 512};
		requests[i] = (struct weft_request){.op = WEFT_READ,
						    .block = i,
						    .block_count = 1,
						    .iov = &iovs[i],
						    .iov_count = 1,
						    .reactor = i,
						    .done = on_read};
		EXPECT_EQ(0, weft_submit(ns, &requests[i]));
	}
	pthread_mutex_lock(&lock);
	while (ended_count < READS)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
}

static void each_queue_tells_what_it_does(void)
{
	struct weft_queue_info infos[8] = {{.size = sizeof(infos[0])}};
	struct weft_options options;
	struct weft_subsystem *subsystem;
	struct weft_ns *ns;
	struct weft *weft;
	uint64_t commands = 0;

	weft_options_init(&options);
	options.reactors = 2;
	weft = world_create(&options);
	subsystem = open_with(weft, 6, 16);
	ns = world_ns(subsystem, NS_SMALL);
	EXPECT_EQ(6, weft_queues(subsystem, NULL, 0));
	EXPECT_EQ(6, weft_queues(subsystem, infos, 8));
	for (unsigned i = 0; i < 6; i++) {
		EXPECT(infos[i].queue >= 1 && infos[i].queue <= 3);
		EXPECT(infos[i].reactor < 2);
		/* A queue of 16 entries holds 15. */
		EXPECT_EQ(15, infos[i].depth);
		EXPECT_EQ(0, infos[i].in_flight);
		EXPECT_EQ(0, infos[i].latency_ns);
		EXPECT(strstr(infos[i].address, world_env("WEFT_PORT")) != NULL);
		commands += infos[i].commands;
	}
	read_many(ns);
	EXPECT_EQ(6, weft_queues(subsystem, infos, 8));
	for (unsigned i = 0; i < 6; i++) {
		EXPECT(infos[i].latency_ns > 0 && infos[i].latency_ns < 10000000000ull);
		EXPECT_EQ(0, infos[i].in_flight);
		commands -= infos[i].commands;
	}
	EXPECT_EQ(-READS, (int64_t)commands);
	/* Fills only the fields within the caller's size. */
	memset(infos, 0xee, sizeof(infos));
	infos[0].size = offsetof(struct weft_queue_info, in_flight);
	EXPECT_EQ(6, weft_queues(subsystem, infos, 1));
	EXPECT_EQ(15, infos[0].depth);
	EXPECT_EQ(0xeeeeeeee, infos[0].in_flight);
	infos[0].size = 0;
	EXPECT_EQ(-EINVAL, weft_queues(subsystem, infos, 1));
	weft_ns_close(ns);
	weft_close(subsystem);
	/* By default: one queue on each reactor. */
	subsystem = open_with(weft, 0, 0);
	EXPECT_EQ(2, weft_queues(subsystem, NULL, 0));
	weft_close(subsystem);
	weft_destroy(weft);
}

/* Data is the same with every policy, digest, zero copy and hedging. */
static void every_way_of_travelling_works(void)
{
	static const char *const policies[] = {"numa", "round-robin", "queue-depth", "latency"};
	struct weft_path paths[2] = {
		{.address = "127.0.0.1", .service = world_env("WEFT_PORT")},
		{.address = "127.0.0.1", .service = world_env("WEFT_PORT_2")},
	};
	static uint8_t bytes[2][64 * 4096];
	struct weft_open_options options;
	struct weft *weft = world_create(NULL);
	struct weft_path path;

	for (unsigned i = 0; i < 16; i++) {
		struct weft_subsystem *subsystem = NULL;
		struct weft_ns *ns;

		world_open_options(&options, &path);
		options.paths = paths;
		options.path_count = 2;
		options.policy = policies[i % 4];
		options.header_digest = (i & 4) != 0;
		options.data_digest = (i & 8) != 0;
		options.zero_copy_bytes = i % 3 == 0 ? 8192 : 0;
		options.hedge_percentile = i % 2 == 0 ? 9900 : 0;
		EXPECT_EQ(0, weft_open(weft, &options, &subsystem, NULL));
		if (subsystem == NULL)
			break;
		ns = world_ns(subsystem, NS_BIG);
		world_fill(bytes[0], sizeof(bytes[0]), 77 + i);
		memset(bytes[1], 0, sizeof(bytes[1]));
		EXPECT_EQ(0, weft_write(ns, bytes[0], 128, 64, 0));
		EXPECT_EQ(0, weft_read(ns, bytes[1], 128, 64));
		EXPECT(memcmp(bytes[0], bytes[1], sizeof(bytes[0])) == 0);
		for (unsigned k = 0; k < 100; k++)
			EXPECT_EQ(0, weft_read(ns, bytes[1], 128 + k % 64, 1));
		weft_ns_close(ns);
		weft_close(subsystem);
	}
	weft_destroy(weft);
}

/* ---- placement ------------------------------------------------------------------------------- */

static char root[] = "/tmp/weft-sysfs-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *slash = full + sizeof(root); (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	file = fopen(full, "w");
	if (file != NULL) {
		fputs(text, file);
		fclose(file);
	}
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	return remove(path);
}

/* The last CPU of this process: it becomes node 1. */
static int cpu_choose(void)
{
	cpu_set_t set;
	int cpu = CPU_SETSIZE - 1;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	while (cpu > 0 && !CPU_ISSET((unsigned)cpu, &set))
		cpu--;
	return cpu;
}

static void on_where(struct weft_request *request)
{
	CPU_ZERO((cpu_set_t *)request->arg);
	sched_getaffinity(0, sizeof(cpu_set_t), request->arg);
	on_read(request);
}

/* The CPUs on which a reactor may run. */
static cpu_set_t cpus_of_reactor(struct weft_ns *ns, unsigned reactor)
{
	uint8_t bytes[512];
	struct iovec iov = {bytes, sizeof(bytes)};
	cpu_set_t set;
	struct weft_request request = {.op = WEFT_READ,
				       .block_count = 1,
				       .iov = &iov,
				       .iov_count = 1,
				       .reactor = reactor,
				       .done = on_where,
				       .arg = &set};

	CPU_ZERO(&set);
	ended_count = 0;
	EXPECT_EQ(0, weft_submit(ns, &request));
	pthread_mutex_lock(&lock);
	while (ended_count == 0)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	return set;
}

static void reactors_run_near_the_network_card(void)
{
	struct weft_path_info infos[4] = {{.size = sizeof(infos[0])}};
	struct weft_subsystem *subsystem;
	struct weft_options options;
	struct weft_ns *ns;
	struct weft *weft;
	int cpu = cpu_choose();
	char text[64];

	if (mkdtemp(root) == NULL) {
		EXPECT(!"a temporary folder");
		return;
	}
	put("class/net/lo/device/numa_node", "1\n");
	snprintf(text, sizeof(text), "%d\n", cpu);
	put("devices/system/node/node1/cpulist", text);
	put("devices/system/node/node1/distance", "21 10\n");
	snprintf(text, sizeof(text), "devices/system/cpu/cpu%d/node1/cpulist", cpu);
	put(text, "");
	weft_options_init(&options);
	options.reactors = 2;
	options.is_numa_aware = true;
	options.sysfs = root;
	weft = world_create(&options);
	subsystem = open_with(weft, 0, 0);
	ns = world_ns(subsystem, NS_SMALL);
	for (unsigned i = 0; i < 2; i++) {
		cpu_set_t set = cpus_of_reactor(ns, i);

		EXPECT_EQ(1, CPU_COUNT(&set));
		EXPECT(CPU_ISSET((unsigned)cpu, &set));
	}
	EXPECT_EQ(2, weft_paths(subsystem, 0, infos, 4));
	EXPECT_EQ(1, infos[0].numa_node);
	EXPECT_EQ(1, infos[1].numa_node);
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Reactors are not moved when the user did not ask. */
static void reactors_stay_where_they_were_put(void)
{
	struct weft_path_info infos[2] = {{.size = sizeof(infos[0])}};
	struct weft_subsystem *subsystem;
	struct weft_options options;
	struct weft_ns *ns;
	struct weft *weft;
	cpu_set_t set, own;

	weft_options_init(&options);
	options.sysfs = root;
	weft = world_create(&options);
	subsystem = open_with(weft, 0, 0);
	ns = world_ns(subsystem, NS_SMALL);
	set = cpus_of_reactor(ns, 0);
	CPU_ZERO(&own);
	sched_getaffinity(0, sizeof(own), &own);
	EXPECT(CPU_EQUAL(&own, &set));
	EXPECT_EQ(1, weft_paths(subsystem, 0, infos, 2));
	EXPECT_EQ(-1, infos[0].numa_node);
	weft_ns_close(ns);
	weft_close(subsystem);
	weft_destroy(weft);
}

int main(void)
{
	TAP_RUN(each_queue_tells_what_it_does);
	TAP_RUN(every_way_of_travelling_works);
	TAP_RUN(reactors_run_near_the_network_card);
	TAP_RUN(reactors_stay_where_they_were_put);
	return tap_end();
}
