/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon in this process, with real reactors and listeners: it starts, applies, reloads and
 * ends in order; what cannot be applied changes nothing; what cannot start says so by its status.
 */
#include "control/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/state.h"
#include "tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_NS (2 * NS_PER_MS)

static char root[] = "/tmp/weft-test-daemon-XXXXXX";
static char config_path[128];
static char state_dir[128];

struct run {
	struct daemon *daemon;
	struct reactor_timer timer;
	struct net_addr addr; /* where the first port was bound */
	unsigned started;
	unsigned stopping;
	unsigned ended;
	unsigned applied;
	int applied_res;
	unsigned port_count;
	unsigned subsystem_count;
	uint64_t discovery_generation;
	void (*next)(struct run *run); /* what `started` does */
};

static void put_config(const char *text)
{
	FILE *file = fopen(config_path, "w");

	EXPECT(file != NULL);
	if (file) {
		fputs(text, file);
		fclose(file);
	}
}

static void look(struct run *run)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(run->daemon));

	run->port_count = snapshot->port_count;
	run->subsystem_count = snapshot->subsystem_count;
	run->discovery_generation = snapshot->discovery_generation;
	EXPECT_EQ(0, target_port_addr(daemon_target(run->daemon), 1, &run->addr));
}

static void on_started(struct daemon *daemon, void *arg)
{
	struct run *run = arg;

	run->started++;
	run->daemon = daemon;
	look(run);
	run->next(run);
}

static void on_stopping(void *arg)
{
	((struct run *)arg)->stopping++;
}

static void on_ended(void *arg)
{
	((struct run *)arg)->ended++;
}

static int run_daemon(struct run *run, const char *text, struct daemon_options *options)
{
	static struct config_errors errors;

	put_config(text);
	errors.count = 0;
	EXPECT_EQ(0, config_load_file(config_path, &options->taken_config, &errors));
	options->config_path = config_path;
	options->state_dir = state_dir;
	options->reactor_count = 2;
	options->hooks = (struct daemon_hooks){
		.started = on_started, .stopping = on_stopping, .ended = on_ended, .arg = run};
	return daemon_run(options);
}

static uint64_t unsafe_shutdowns(void)
{
	struct state_error error;
	struct state state;

	EXPECT_EQ(0, state_open(state_dir, &state, &error));
	state_close(&state, true);
	return state.unsafe_shutdowns;
}

#define ONE_PORT "\"ports\":[{\"service\":\"0\"}]"
#define A_SUBSYSTEM(name, media)                                                                   \
	"{\"nqn\":\"nqn.2026-11.io.weft:" name "\",\"namespaces\":[{\"media\":\"" media "\"}]}"
#define ONE "{\"version\":1," ONE_PORT ",\"subsystems\":[" A_SUBSYSTEM("a", "mem:1M") "]}"
#define TWO                                                                                        \
	"{\"version\":1," ONE_PORT                                                                 \
	",\"subsystems\":[" A_SUBSYSTEM("a", "mem:1M") "," A_SUBSYSTEM("b", "mem:1M") "]}"

static void serve_on(struct run *run)
{
	daemon_serve(run->daemon);
}

static void ends_by_itself(void)
{
	struct daemon_options options = {.run_for_ms = 20, .has_discovery = true};
	struct run run = {.next = serve_on};

	net_addr_parse("127.0.0.1:0", 0, &options.discovery);
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(1, run.started);
	EXPECT_EQ(1, run.stopping);
	EXPECT_EQ(1, run.ended);
	EXPECT_EQ(2, run.port_count);
	EXPECT_EQ(1, run.subsystem_count);
	EXPECT(net_addr_port(&run.addr) != 0);
	EXPECT_EQ(0, unsafe_shutdowns());
}

static void terminate_self(struct run *run)
{
	daemon_serve(run->daemon);
	kill(getpid(), SIGTERM);
}

static void a_signal_is_an_orderly_end(void)
{
	struct daemon_options options = {0};
	struct run run = {.next = terminate_self};

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(1, run.ended);
	EXPECT_EQ(0, unsafe_shutdowns());
}

static void stray_is_taken(struct reactor_timer *timer)
{
	struct run *run = container_of(timer, struct run, timer);
	sigset_t pending;

	sigpending(&pending);
	if (sigismember(&pending, SIGUSR2))
		reactor_timer_arm(timer, reactor_now_ns(daemon_control(run->daemon)) + POLL_NS);
	else
		kill(getpid(), SIGTERM);
}

static void terminate_after_a_stray(struct run *run)
{
	daemon_serve(run->daemon);
	kill(getpid(), SIGUSR2);
	reactor_timer_init(daemon_control(run->daemon), &run->timer, stray_is_taken);
	reactor_timer_arm(&run->timer, reactor_now_ns(daemon_control(run->daemon)) + POLL_NS);
}

/* SIGUSR2 is how the thread of signals is told to end: from outside it must not be. */
static void a_stray_signal_leaves_it_stoppable(void)
{
	struct daemon_options options = {.run_for_ms = 5000}; /* the end of one that is deaf */
	struct run run = {.next = terminate_after_a_stray};
	uint64_t began_ns = clock_monotonic_ns();

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT(clock_monotonic_ns() - began_ns < options.run_for_ms * NS_PER_MS);
	EXPECT_EQ(1, run.stopping);
	EXPECT_EQ(1, run.ended);
	EXPECT_EQ(0, unsafe_shutdowns());
}

static void a_signal_before_the_start_ends_it(void)
{
	struct daemon_options options = {0};
	struct run run = {.next = serve_on};
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	kill(getpid(), SIGTERM);
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT(run.started <= 1);
	EXPECT_EQ(1, run.ended);
	EXPECT_EQ(0, unsafe_shutdowns());
}

static void wait_for_reload(struct reactor_timer *timer)
{
	struct run *run = container_of(timer, struct run, timer);

	look(run);
	if (run->subsystem_count == 2)
		daemon_stop(run->daemon, 0);
	else
		reactor_timer_arm(timer, reactor_now_ns(daemon_control(run->daemon)) + POLL_NS);
}

static void reload_self(struct run *run)
{
	put_config(TWO);
	/* Before daemon_serve, so that it has to wait for it. */
	kill(getpid(), SIGHUP);
	reactor_timer_init(daemon_control(run->daemon), &run->timer, wait_for_reload);
	reactor_timer_arm(&run->timer, reactor_now_ns(daemon_control(run->daemon)) + POLL_NS);
	daemon_serve(run->daemon);
}

static void a_reload_is_applied(void)
{
	struct daemon_options options = {.has_discovery = true};
	struct run run = {.next = reload_self};

	net_addr_parse("127.0.0.1:0", 0, &options.discovery);
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(2, run.subsystem_count);
	EXPECT_EQ(2, run.discovery_generation);
	/* The discovery port is not in the file and stays nevertheless. */
	EXPECT_EQ(2, run.port_count);
}

static void on_applied(struct daemon *daemon, int res, void *arg)
{
	struct run *run = arg;

	run->applied++;
	run->applied_res = res;
	look(run);
	daemon_stop(daemon, 0);
}

static void apply_broken(struct run *run)
{
	EXPECT_EQ(0,
		  config_add_private_subsystem(daemon_config(run->daemon), "nqn.2026-11.io.weft:x",
					       "nqn.2014-08.org.h:h", "file:/nowhere/x", 1));
	daemon_apply(run->daemon, on_applied, run);
}

static void what_cannot_be_applied_changes_nothing(void)
{
	struct daemon_options options = {0};
	struct run run = {.next = apply_broken};

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(1, run.applied);
	EXPECT(run.applied_res < 0);
	EXPECT_EQ(1, run.subsystem_count);
	EXPECT_EQ(1, run.discovery_generation);
}

static void fail_self(struct run *run)
{
	daemon_stop(run->daemon, 1);
}

static void a_failure_is_the_exit_status(void)
{
	struct daemon_options options = {0};
	struct run run = {.next = fail_self};

	EXPECT_EQ(1, run_daemon(&run, ONE, &options));
	EXPECT_EQ(0, unsafe_shutdowns());
}

/* A listener of somebody else's; its address as text for a document. */
static int take_address(struct net_addr *ret_addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	net_addr_parse("127.0.0.1:0", 0, ret_addr);
	EXPECT_EQ(0, bind(fd, (struct sockaddr *)&ret_addr->storage, ret_addr->len_bytes));
	EXPECT_EQ(0, listen(fd, 1));
	ret_addr->len_bytes = sizeof(ret_addr->storage);
	EXPECT_EQ(0, getsockname(fd, (struct sockaddr *)&ret_addr->storage, &ret_addr->len_bytes));
	return fd;
}

static void a_taken_address_is_fatal_unless_optional(void)
{
	struct daemon_options options = {.run_for_ms = 1, .has_discovery = true};
	struct run run = {.next = serve_on};
	int fd = take_address(&options.discovery);

	EXPECT_EQ(1, run_daemon(&run, ONE, &options));
	EXPECT_EQ(0, run.started);
	EXPECT_EQ(1, run.ended);
	options.discovery_is_optional = true;
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(1, run.started);
	EXPECT_EQ(1, run.port_count);
	close(fd);
}

static void a_second_daemon_is_refused(void)
{
	struct daemon_options options = {.run_for_ms = 1};
	struct run run = {.next = serve_on};
	struct state_error error;
	struct state state;

	EXPECT_EQ(0, state_open(state_dir, &state, &error));
	EXPECT_EQ(1, run_daemon(&run, ONE, &options));
	EXPECT_EQ(0, run.started);
	state_close(&state, true);
}

int main(void)
{
	char command[128];
	int res;

	if (!mkdtemp(root))
		return 1;
	log_set_level(LOG_LEVEL_ERROR);
	snprintf(config_path, sizeof(config_path), "%s/weft.json", root);
	snprintf(state_dir, sizeof(state_dir), "%s/state", root);
	TAP_RUN(ends_by_itself);
	TAP_RUN(a_signal_is_an_orderly_end);
	TAP_RUN(a_stray_signal_leaves_it_stoppable);
	TAP_RUN(a_signal_before_the_start_ends_it);
	TAP_RUN(a_reload_is_applied);
	TAP_RUN(what_cannot_be_applied_changes_nothing);
	TAP_RUN(a_failure_is_the_exit_status);
	TAP_RUN(a_taken_address_is_fatal_unless_optional);
	TAP_RUN(a_second_daemon_is_refused);
	res = tap_end();
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command) == 0 ? res : 1;
}
