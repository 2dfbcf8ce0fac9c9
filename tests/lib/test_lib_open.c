/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening by address and by discovery, its errors, paths that are added and removed, a namespace
 * that is removed, and a target that is away for longer than fast-io-fail allows.
 */
#include "lib_world.h"

#include <time.h>

static struct weft *weft;

/* Lines from the log and event callbacks. */
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said_lines[65536];
static char logged_lines[65536]; /* log callback only */

static void said_add(const char *line)
{
	size_t used;

	pthread_mutex_lock(&said_lock);
	used = strlen(said_lines);
	snprintf(said_lines + used, sizeof(said_lines) - used, "%s\n", line);
	pthread_mutex_unlock(&said_lock);
}

static bool has_said(const char *text)
{
	bool is_there;

	pthread_mutex_lock(&said_lock);
	is_there = strstr(said_lines, text) != NULL;
	pthread_mutex_unlock(&said_lock);
	return is_there;
}

static void on_event(void *arg, const char *line)
{
	said_add(line);
}

/* Number of log lines that contain `text`. */
static unsigned logged_count(const char *text)
{
	unsigned count = 0;

	pthread_mutex_lock(&said_lock);
	for (const char *at = logged_lines; (at = strstr(at, text)) != NULL; at++)
		count++;
	pthread_mutex_unlock(&said_lock);
	return count;
}

static void logged_reset(void)
{
	pthread_mutex_lock(&said_lock);
	logged_lines[0] = '\0';
	pthread_mutex_unlock(&said_lock);
}

static void logged_add(const char *line)
{
	size_t used;

	pthread_mutex_lock(&said_lock);
	used = strlen(logged_lines);
	snprintf(logged_lines + used, sizeof(logged_lines) - used, "%s\n", line);
	pthread_mutex_unlock(&said_lock);
}

static void on_log(void *arg, int level, const char *line)
{
	logged_add(line);
	if (level < 0 || level > 3)
		said_add("a level that is none");
	if (level >= 2)
		said_add(line);
}

/* Opening must fail with `res` and `text_part`. */
#define EXPECT_REFUSED(res, text_part, options)                                                    \
	do {                                                                                       \
		struct weft_subsystem *opened = NULL;                                              \
		struct weft_error why = {.status = 0};                                             \
		EXPECT_EQ(res, weft_open(weft, options, &opened, &why));                           \
		if (strstr(why.text, text_part) == NULL) {                                         \
			printf("# %s:%d: the text is \"%s\"\n", __FILE__, __LINE__, why.text);     \
			tap_case_failed = true;                                                    \
		}                                                                                  \
		EXPECT(opened == NULL);                                                            \
	} while (0)

static void says_why_arguments_are_wrong(void)
{
	struct weft_open_options options;
	struct weft_path path;

	world_open_options(&options, &path);
	options.profile = "fast";
	EXPECT_REFUSED(-EINVAL, "no profile \"fast\"", &options);
	options.profile = "training";
	options.policy = "random";
	EXPECT_REFUSED(-EINVAL, "no policy \"random\"", &options);
	options.policy = "latency";
	options.timeouts = "keep-alive=5s,patience=3";
	EXPECT_REFUSED(-EINVAL, "patience", &options);
	options.timeouts = "keep-alive=1s,silence=2s";
	EXPECT_REFUSED(-EINVAL, "silence", &options);
	options.timeouts = NULL;
	options.subsystem_nqn = "nothing";
	EXPECT_REFUSED(-EINVAL, "subsystem NQN \"nothing\"", &options);
	options.subsystem_nqn = NULL;
	EXPECT_REFUSED(-EINVAL, "name the subsystem", &options);
	world_open_options(&options, &path);
	options.path_count = 0;
	EXPECT_REFUSED(-EINVAL, "neither a path", &options);
	options.path_count = 1;
	path.service = "http";
	EXPECT_REFUSED(-EINVAL, "\"http\"", &options);
	path.service = NULL;
	path.address = "no.such.host.invalid";
	EXPECT_REFUSED(-EHOSTUNREACH, "no.such.host.invalid", &options);
	world_open_options(&options, &path);
	options.queue_size = 1;
	EXPECT_REFUSED(-EINVAL, "a queue has", &options);
	options.queue_size = 0;
	options.queues = 100000;
	EXPECT_REFUSED(-EINVAL, "queues are too many", &options);
	options.size = 0;
	EXPECT_REFUSED(-EINVAL, "weft_open_options_init", &options);
}

static void says_why_an_instance_is_wrong(void)
{
	struct weft_options options;
	struct weft_error error;
	struct weft *other;
	struct {
		struct weft_options options;
		uint64_t newer;
	} grown = {.newer = 1};

	weft_options_init(&options);
	options.host_nqn = "me";
	EXPECT_EQ(-EINVAL, weft_create(&options, &other, &error));
	EXPECT(strstr(error.text, "host NQN \"me\"") != NULL);
	options.host_nqn = NULL;
	options.host_id = "1234";
	EXPECT_EQ(-EINVAL, weft_create(&options, &other, &error));
	EXPECT(strstr(error.text, "UUID") != NULL);
	options.size = 0;
	EXPECT_EQ(-EINVAL, weft_create(&options, &other, &error));
	weft_options_init(&grown.options);
	grown.options.size = sizeof(grown);
	EXPECT_EQ(-E2BIG, weft_create(&grown.options, &other, NULL));
	grown.newer = 0;
	EXPECT_EQ(0, weft_create(&grown.options, &other, NULL));
	weft_destroy(other);
	EXPECT(strcmp(weft_version(), world_env("WEFT_VERSION")) == 0);
}

static void says_why_nobody_answers(void)
{
	struct weft_open_options options;
	struct weft_path path;

	world_open_options(&options, &path);
	options.timeouts = "connect=2s";
	path.service = world_env("WEFT_DEAD_PORT");
	EXPECT_REFUSED(-ECONNREFUSED, world_env("WEFT_DEAD_PORT"), &options);
	world_open_options(&options, &path);
	options.timeouts = "connect=2s";
	options.subsystem_nqn = "nqn.2026-11.io.weft:another";
	EXPECT_REFUSED(-ECONNREFUSED, "nqn.2026-11.io.weft:another", &options);
}

static void opens_by_discovery(void)
{
	struct weft_path discovery = {.address = "localhost", .service = world_env("WEFT_PORT")};
	struct weft_open_options options;
	struct weft_subsystem *subsystem = NULL;
	struct weft_path path;
	uint8_t bytes[512];
	struct weft_ns *ns;

	world_open_options(&options, &path);
	options.path_count = 0;
	options.discovery = &discovery;
	EXPECT_EQ(0, weft_open(weft, &options, &subsystem, NULL));
	ns = world_ns(subsystem, NS_SMALL);
	EXPECT_EQ(0, weft_read(ns, bytes, 0, 1));
	weft_ns_close(ns);
	weft_close(subsystem);
	/* Without an NQN: the target has only one subsystem. */
	subsystem = NULL;
	options.subsystem_nqn = NULL;
	EXPECT_EQ(0, weft_open(weft, &options, &subsystem, NULL));
	weft_close(subsystem);
	options.subsystem_nqn = "nqn.2026-11.io.weft:another";
	EXPECT_REFUSED(-ENOENT, "no path to nqn.2026-11.io.weft:another", &options);
	discovery.service = world_env("WEFT_DEAD_PORT");
	EXPECT_REFUSED(-ECONNREFUSED, "discovery: ", &options);
}

static void adds_and_removes_paths(void)
{
	struct weft_path second = {.address = "127.0.0.1", .service = world_env("WEFT_PORT_2")};
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_SMALL);
	struct weft_path_info infos[8] = {{.size = sizeof(infos[0])}};
	struct weft_error error;
	uint8_t bytes[512];
	char live[64];

	/* One path on each of two reactors. */
	EXPECT_EQ(2, weft_paths(subsystem, NS_SMALL, infos, 8));
	EXPECT(strcmp(infos[0].state, "live") == 0 && strcmp(infos[1].state, "live") == 0);
	EXPECT(strcmp(infos[0].ana_state, "optimized") == 0 &&
	       infos[0].reactor != infos[1].reactor);
	EXPECT(strstr(infos[0].address, world_env("WEFT_PORT")) != NULL);
	logged_reset();
	EXPECT_EQ(0, weft_path_add(subsystem, &second, &error));
	EXPECT_EQ(-EEXIST, weft_path_add(subsystem, &second, &error));
	EXPECT(strstr(error.text, world_env("WEFT_PORT_2")) != NULL);
	EXPECT_EQ(4, weft_paths(subsystem, 0, NULL, 0));
	snprintf(live, sizeof(live), "127.0.0.1:%s: live", second.service);
	for (int i = 0; i < 2000 && logged_count(live) < 2; i++)
		usleep(10000); /* poll with a deadline */
	EXPECT_EQ(2, logged_count(live));
	EXPECT_EQ(0, weft_path_remove(subsystem, &second, &error));
	EXPECT_EQ(-ENOENT, weft_path_remove(subsystem, &second, &error));
	EXPECT_EQ(0, weft_read(ns, bytes, 0, 1));
	infos[0].size = 0;
	EXPECT_EQ(-EINVAL, weft_paths(subsystem, 0, infos, 8));
	weft_ns_close(ns);
	weft_close(subsystem);
}

static void knows_that_a_namespace_has_gone(void)
{
	struct weft_ns_info info = {.size = sizeof(info)};
	struct weft_open_options options;
	struct weft_subsystem *subsystem = NULL;
	struct weft_path path;
	struct weft_ns *ns, *none;
	uint8_t bytes[512];

	world_open_options(&options, &path);
	options.event = on_event;
	EXPECT_EQ(0, weft_open(weft, &options, &subsystem, NULL));
	ns = world_ns(subsystem, NS_LEAVING);
	EXPECT_EQ(0, weft_read(ns, bytes, 0, 1));
	world_ask("remove namespace");
	for (int i = 0; i < 2000 && !has_said("namespace 6 was removed"); i++)
		usleep(10000); /* poll with a deadline */
	EXPECT(has_said("reactor 0: namespace 6 was removed"));
	for (int i = 0; i < 2000 && !has_said("reactor 1: namespace 6 was removed"); i++)
		usleep(10000); /* poll with a deadline */
	/* Each reactor logs its own event once. */
	EXPECT_EQ(1, logged_count("reactor 0: namespace 6 was removed"));
	EXPECT_EQ(2, logged_count("namespace 6 "));
	EXPECT_EQ(-ENXIO, weft_read(ns, bytes, 0, 1));
	EXPECT_EQ(-ENOENT, weft_ns_open(subsystem, NS_LEAVING, &none, NULL));
	EXPECT_EQ(6, weft_ns_list(subsystem, NULL, 0));
	EXPECT_EQ(0, weft_ns_info(ns, &info));
	EXPECT(info.is_gone);
	weft_ns_close(ns);
	weft_close(subsystem);
}

static bool is_stale(struct weft_ns *ns)
{
	struct weft_ns_info info = {.size = sizeof(info)};

	return weft_ns_info(ns, &info) == -ESTALE;
}

/* A handle stands for one block size: LBAs of another block size are never sent. */
static void ends_with_the_format(void)
{
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_FORMATTED), *fresh;
	struct weft_ns_info info = {.size = sizeof(info)};
	uint8_t bytes[4096];
	struct weft_request zeroes = {.op = WEFT_WRITE_ZEROES, .block = 8, .block_count = 1};
	struct weft_request trim = {.op = WEFT_DEALLOCATE, .block = 8, .block_count = 1};

	EXPECT_EQ(0, weft_read(ns, bytes, 0, 1));
	EXPECT_EQ(0, weft_run(ns, &zeroes));
	world_ask("format namespace");
	for (int i = 0; i < 2000 && !is_stale(ns); i++)
		usleep(10000); /* poll with a deadline */
	EXPECT(is_stale(ns));
	EXPECT_EQ(-ESTALE, weft_read(ns, bytes, 0, 1));
	EXPECT_EQ(-ESTALE, weft_write(ns, bytes, 0, 1, 0));
	EXPECT_EQ(-ESTALE, weft_run(ns, &zeroes));
	EXPECT_EQ(-ESTALE, weft_run(ns, &trim));
	fresh = world_ns(subsystem, NS_FORMATTED);
	EXPECT_EQ(0, weft_ns_info(fresh, &info));
	EXPECT_EQ(4096, info.block_bytes);
	EXPECT_EQ(0, weft_read(fresh, bytes, 0, 1));
	EXPECT_EQ(0, weft_run(fresh, &trim));
	EXPECT_EQ(-ESTALE, weft_run(ns, &trim));
	weft_ns_close(fresh);
	weft_ns_close(ns);
	weft_close(subsystem);
}

static void fails_when_no_path_comes_back_in_time(void)
{
	struct weft_open_options options;
	struct weft_subsystem *subsystem = NULL;
	struct weft_request request;
	struct weft_path path;
	struct weft_ns *ns;
	uint8_t bytes[512];
	struct iovec iov = {bytes, sizeof(bytes)};

	world_open_options(&options, &path);
	options.profile = "training";
	options.timeouts = "fast-io-fail=500ms,reconnect-max=200ms,reconnect-min=50ms";
	EXPECT_EQ(0, weft_open(weft, &options, &subsystem, NULL));
	ns = world_ns(subsystem, NS_SMALL);
	EXPECT_EQ(0, weft_read(ns, bytes, 0, 1));
	world_ask("kill target");
	request = (struct weft_request){
		.op = WEFT_READ, .block_count = 1, .iov = &iov, .iov_count = 1};
	EXPECT_EQ(-ENOTCONN, weft_run(ns, &request));
	EXPECT_EQ(0, request.status);
	world_ask("start target");
	for (int i = 0; i < 2000 && weft_run(ns, &request) != 0; i++)
		usleep(10000); /* poll with a deadline: until the path is back */
	EXPECT_EQ(0, request.result);
	weft_ns_close(ns);
	weft_close(subsystem);
}

/* Holds its reactor for longer than a callback may. */
static void hold_done(struct weft_request *request)
{
	struct timespec begun, now;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < 5000000);
	said_add("the reactor was held");
}

/* Lines of the library itself and of the layers below. */
static void logs_to_the_callback(void)
{
	struct weft_request request = {.op = WEFT_FLUSH, .done = hold_done};
	struct weft_subsystem *subsystem = world_open(weft);
	struct weft_ns *ns = world_ns(subsystem, NS_SMALL);

	EXPECT_EQ(0, weft_submit(ns, &request));
	for (int i = 0; i < 2000 && !(has_said("the reactor was held") &&
				      has_said("reactor: callbacks held reactor 0"));
	     i++)
		EXPECT_EQ(0, weft_flush(ns));
	EXPECT(has_said("reactor: callbacks held reactor 0"));
	EXPECT(has_said("reactor 1: path 127.0.0.1:"));
	EXPECT(!has_said("a level that is none"));
	weft_ns_close(ns);
	weft_close(subsystem);
}

int main(void)
{
	struct weft_options options;

	weft_options_init(&options);
	options.reactors = 2;
	options.log = on_log;
	weft = world_create(&options);
	TAP_RUN(says_why_arguments_are_wrong);
	TAP_RUN(says_why_an_instance_is_wrong);
	TAP_RUN(says_why_nobody_answers);
	TAP_RUN(opens_by_discovery);
	TAP_RUN(adds_and_removes_paths);
	TAP_RUN(knows_that_a_namespace_has_gone);
	TAP_RUN(ends_with_the_format);
	TAP_RUN(fails_when_no_path_comes_back_in_time);
	TAP_RUN(logs_to_the_callback);
	weft_destroy(weft);
	return tap_end();
}
