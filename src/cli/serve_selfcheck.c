/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The self-check of `weft serve`: exports a scratch subsystem with its own file on the first port,
 * beside the desired state (daemon_set_private), and allows only its own host NQN. A helper thread
 * connects over TCP like any host, writes and verifies the whole file, then reads at random. Then
 * the subsystem is removed and the file deleted. The user's namespaces are never touched.
 *
 * The helper thread only runs perf_run; everything else runs on the control reactor.
 */
#include "base/clock.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/serve.h"
#include "perf/perf.h"
#include "target/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SELFCHECK_NQN           "nqn.2026-11.io.weft:self-check"
#define SELFCHECK_HOST_NQN      "nqn.2026-11.io.weft:self-check-host"
#define SELFCHECK_FILE          "self-check.img"
#define SELFCHECK_BYTES         (256ull * 1024 * 1024)
#define SELFCHECK_WRITE_BYTES   (128 * 1024)
#define SELFCHECK_WRITE_DEPTH   16
#define SELFCHECK_READ_BYTES    4096
#define SELFCHECK_READ_DEPTH    32
#define SELFCHECK_READ_MS       2000
#define SELFCHECK_REACTOR_INDEX 1001 /* beyond the data reactors and control */

struct selfcheck {
	char path[PATH_MAX];
	char spec[PATH_MAX + 32];
	struct daemon_private private;
	struct daemon *daemon;
	struct host_addr addr;
	pthread_t thread;
	bool has_thread;
	atomic_bool stop;
	struct perf_result result; /* owned by the thread until it posts over_msg */
	bool is_good;
	struct reactor_msg over_msg;
	void (*done)(struct daemon *daemon, bool is_good, void *arg);
	void *done_arg;
};

struct selfcheck *selfcheck_prepare(const char *state_dir)
{
	struct selfcheck *check = calloc(1, sizeof(*check));
	int len;

	if (!check)
		return NULL;
	len = snprintf(check->path, sizeof(check->path), "%s/%s", state_dir, SELFCHECK_FILE);
	snprintf(check->spec, sizeof(check->spec), "file:%s,size=%llu", check->path,
		 (unsigned long long)SELFCHECK_BYTES);
	if ((size_t)len < sizeof(check->path) && !strchr(state_dir, ','))
		return check;
	tool_error("serve", "cannot set up the self-check: %s", strerror(ENAMETOOLONG));
	free(check);
	return NULL;
}

static void options_fill(struct selfcheck *check, struct perf_options *options)
{
	perf_options_init(options);
	options->host.addr = check->addr;
	text_copy(options->host.subsystem_nqn, sizeof(options->host.subsystem_nqn), SELFCHECK_NQN);
	text_copy(options->host.host_nqn, sizeof(options->host.host_nqn), SELFCHECK_HOST_NQN);
	uuid_from_name(SELFCHECK_HOST_NQN, &options->host.host_id);
	options->host.io_queues = 1;
	options->reactor_index = SELFCHECK_REACTOR_INDEX;
	options->cpu = -1;
	options->nsid = 1;
	options->stop = &check->stop;
}

static bool phase_run(struct selfcheck *check, const struct perf_options *options, const char *what)
{
	struct perf_result *result = &check->result;
	int res;

	memset(result, 0, sizeof(*result));
	res = perf_run(options, result);
	if (atomic_load(&check->stop))
		return false;
	if (res == 0 && result->io_errors == 0 && result->verify_errors == 0)
		return true;
	fprintf(stderr, "SELF-CHECK FAILED: %s: %s\n", what,
		result->verify_first[0] != 0 ? result->verify_first
		: result->error[0] != 0      ? result->error
					     : strerror(-res));
	if (result->io_errors > 0 || result->verify_errors > 0)
		fprintf(stderr, "SELF-CHECK FAILED: %llu I/O errors, %llu blocks wrong\n",
			(unsigned long long)result->io_errors,
			(unsigned long long)result->verify_errors);
	return false;
}

static bool write_and_verify(struct selfcheck *check)
{
	struct perf_options options;
	const struct perf_result *result = &check->result;
	char size[32];
	double seconds;

	options_fill(check, &options);
	options.is_random = false;
	options.read_percent = 0;
	options.io_bytes = SELFCHECK_WRITE_BYTES;
	options.depth = SELFCHECK_WRITE_DEPTH;
	options.time_ms = 0;
	options.bytes = SELFCHECK_BYTES;
	options.wants_verify = true;
	if (!phase_run(check, &options, "write and verify"))
		return false;
	if (result->writes.bytes < SELFCHECK_BYTES ||
	    result->verified_blocks * result->block_bytes < SELFCHECK_BYTES) {
		fprintf(stderr,
			"SELF-CHECK FAILED: only %llu bytes written, %llu blocks verified\n",
			(unsigned long long)result->writes.bytes,
			(unsigned long long)result->verified_blocks);
		return false;
	}
	seconds = (double)(result->elapsed_ns + result->verify_elapsed_ns) / NS_PER_S;
	printf("self-check: %s written and verified over TCP in %.2f s\n",
	       text_format_size(result->writes.bytes, size, sizeof(size)), seconds);
	return true;
}

static bool random_reads(struct selfcheck *check)
{
	const struct perf_result *result = &check->result;
	struct perf_options options;
	double seconds;

	options_fill(check, &options);
	options.is_random = true;
	options.read_percent = 100;
	options.io_bytes = SELFCHECK_READ_BYTES;
	options.depth = SELFCHECK_READ_DEPTH;
	options.time_ms = SELFCHECK_READ_MS;
	options.wants_verify = false;
	if (!phase_run(check, &options, "random reads"))
		return false;
	if (result->reads.ios == 0) {
		fprintf(stderr, "SELF-CHECK FAILED: no read completed\n");
		return false;
	}
	seconds = (double)result->elapsed_ns / NS_PER_S;
	printf("self-check: random 4 KiB reads at depth %d: %.0f IOPS, p50 %.0f us, p99 %.0f us\n",
	       SELFCHECK_READ_DEPTH, seconds > 0 ? (double)result->reads.ios / seconds : 0.0,
	       (double)histogram_percentile(&result->reads.latency, 50) / NS_PER_US,
	       (double)histogram_percentile(&result->reads.latency, 99) / NS_PER_US);
	return true;
}

static void selfcheck_removed(struct daemon *daemon, int res, void *arg)
{
	struct selfcheck *check = arg;

	if (unlink(check->path) && errno != ENOENT) {
		tool_error("serve", "cannot delete %s: %s", check->path, strerror(errno));
		check->is_good = false;
	}
	check->done(daemon, check->is_good && res == 0, check->done_arg);
}

static void selfcheck_over(struct reactor_msg *msg)
{
	struct selfcheck *check = container_of(msg, struct selfcheck, over_msg);

	pthread_join(check->thread, NULL);
	check->has_thread = false;
	fflush(stdout);
	daemon_set_private(check->daemon, NULL, selfcheck_removed, check);
}

static void *selfcheck_main(void *arg)
{
	struct selfcheck *check = arg;

	check->is_good = write_and_verify(check) && random_reads(check);
	reactor_post(daemon_control(check->daemon), &check->over_msg, selfcheck_over);
	return NULL;
}

static const struct port *first_port(const struct snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->port_count; i++) {
		if (!snapshot->ports[i].is_discovery_only)
			return &snapshot->ports[i];
	}
	return NULL;
}

/* The scratch subsystem is exported: starts the load. */
static void selfcheck_added(struct daemon *daemon, int res, void *arg)
{
	struct selfcheck *check = arg;
	const struct port *port;

	if (res < 0) {
		fprintf(stderr, "SELF-CHECK FAILED: cannot set up the check: %s\n", strerror(-res));
		check->done(daemon, false, check->done_arg);
		return;
	}
	port = snapshot_find_port(target_snapshot(daemon_target(daemon)), check->private.port_id);
	check->addr.transport = host_transport_of(port_transport(port)->trtype);
	serve_reachable_addr(daemon_target(daemon), port, &check->addr.net);
	res = pthread_create(&check->thread, NULL, selfcheck_main, check);
	check->has_thread = res == 0;
	if (res != 0) {
		fprintf(stderr, "SELF-CHECK FAILED: cannot start a thread: %s\n", strerror(res));
		check->done(daemon, false, check->done_arg);
	}
}

void selfcheck_start(struct selfcheck *check, struct daemon *daemon,
		     void (*done)(struct daemon *daemon, bool is_good, void *arg), void *arg)
{
	const struct port *port = first_port(target_snapshot(daemon_target(daemon)));

	check->daemon = daemon;
	check->done = done;
	check->done_arg = arg;
	if (!port) {
		fprintf(stderr, "SELF-CHECK FAILED: the configuration has no port\n");
		done(daemon, false, arg);
		return;
	}
	check->private = (struct daemon_private){
		.nqn = SELFCHECK_NQN,
		.host_nqn = SELFCHECK_HOST_NQN,
		.media_spec = check->spec,
		.port_id = port->id,
	};
	daemon_set_private(daemon, &check->private, selfcheck_added, check);
}

void selfcheck_cancel(struct selfcheck *check)
{
	atomic_store(&check->stop, true);
}

void selfcheck_end(struct selfcheck *check)
{
	selfcheck_cancel(check);
	if (check->has_thread)
		pthread_join(check->thread, NULL);
	unlink(check->path);
	free(check);
}
