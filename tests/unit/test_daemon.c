/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon in this process, with real reactors and listeners: it starts, applies, reloads and
 * ends in order; a change that cannot be applied changes nothing; a failed start has an exit
 * status.
 */
#include "api/api.h"
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/unix_socket.h"
#include "config/address.h"
#include "daemon/start.h"
#include "daemon/state.h"
#include "temp_folder.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_NS (2 * NS_PER_MS)

static char config_path[128];
static char state_dir[128];

struct run {
	struct daemon *daemon;
	struct reactor_timer timer;
	struct net_addr addr; /* bound address of the first port */
	unsigned started;
	unsigned stopping;
	unsigned ended;
	unsigned applied;
	int applied_res;
	unsigned port_count;
	unsigned subsystem_count;
	uint64_t discovery_generation;
	uint64_t generation_first;
	uint64_t generation;
	unsigned stop_after; /* stops after this number of answers */
	unsigned changes_ended;
	unsigned drained;
	bool has_no_source;
	void (*next)(struct run *run); /* called by `started` */
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
	run->generation_first = daemon_generation(daemon);
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
	static const struct api_options api_options;
	static char hash[STORE_HASH_BYTES];
	json_t *document;

	put_config(text);
	errors.count = 0;
	EXPECT_EQ(0, start_read_file(config_path, &document, hash, &errors));
	EXPECT_EQ(0, config_load_json(document, &options->taken_config, &errors));
	json_decref(document);
	options->source_hash = run->has_no_source ? NULL : hash;
	options->config_path = config_path;
	options->state_dir = state_dir;
	options->reactor_count = 2;
	options->api = &api_functions;
	options->api_options = &api_options;
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

/* SIGUSR2 ends the thread of signals; from outside it must not. */
static void a_stray_signal_leaves_it_stoppable(void)
{
	struct daemon_options options = {.run_for_ms = 5000}; /* ends one that ignores the stop */
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
	/* Sent before daemon_serve, so that the reload has to wait for it. */
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
	/* The discovery port is not in the file and stays anyway. */
	EXPECT_EQ(2, run.port_count);
}

/* ---- changes ------------------------------------------------------------------------------- */

static int add_edit(json_t *document, const char *name, const char *media)
{
	char nqn[64];

	snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.weft:%s", name);
	return json_array_append_new(json_object_get(document, "subsystems"),
				     json_pack("{s:s,s:b,s:[{s:i,s:s}]}", "nqn", nqn,
					       "allow_any_host", 1, "namespaces", "nsid", 1,
					       "media", media));
}

static int edit_add_broken(json_t *document, void *arg, struct config_errors *errors)
{
	return add_edit(document, "x", "file:/nowhere/x");
}

static int edit_add_b(json_t *document, void *arg, struct config_errors *errors)
{
	return add_edit(document, "b", "mem:1M");
}

static int edit_add_c(json_t *document, void *arg, struct config_errors *errors)
{
	return add_edit(document, "c", "mem:1M");
}

static int edit_nothing(json_t *document, void *arg, struct config_errors *errors)
{
	return 0;
}

static int edit_refuse(json_t *document, void *arg, struct config_errors *errors)
{
	json_object_clear(document);
	config_errors_add(errors, "no such thing");
	return -ENOENT;
}

static int edit_typo(json_t *document, void *arg, struct config_errors *errors)
{
	return json_object_set_new(document, "subsytems", json_array());
}

static void on_applied(void *arg, struct change_result *result)
{
	struct run *run = arg;

	run->applied++;
	run->applied_res = result->res;
	run->generation = result->generation;
	EXPECT((result->res < 0) == (result->errors.count > 0));
	look(run);
	if (run->applied == run->stop_after)
		daemon_stop(run->daemon, 0);
}

static void change(struct run *run, int (*edit)(json_t *, void *, struct config_errors *))
{
	const struct change change = {
		.edit = edit, .done = on_applied, .arg = run, .origin = "test"};

	daemon_change(run->daemon, &change);
}

static void apply_broken(struct run *run)
{
	run->stop_after = 4;
	change(run, edit_add_broken);
	change(run, edit_typo);
	change(run, edit_refuse);
	change(run, edit_nothing);
}

static void what_cannot_be_applied_changes_nothing(void)
{
	struct daemon_options options = {.start = DAEMON_RESET};
	struct run run = {.next = apply_broken};

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(4, run.applied);
	EXPECT_EQ(0, run.applied_res);
	EXPECT_EQ(run.generation_first, run.generation);
	EXPECT_EQ(1, run.subsystem_count);
	EXPECT_EQ(1, run.discovery_generation);
}

static void on_dry(void *arg, struct change_result *result)
{
	struct run *run = arg;

	run->applied++;
	EXPECT_EQ(0, result->res);
	EXPECT_EQ(run->generation_first, result->generation);
	EXPECT(result->diff && strstr(result->diff, "nqn.2026-11.io.weft:b"));
	look(run);
	EXPECT_EQ(1, run->subsystem_count);
}

static void on_stale(void *arg, struct change_result *result)
{
	struct run *run = arg;

	run->applied++;
	EXPECT_EQ(-ESTALE, result->res);
	EXPECT_EQ(run->generation_first + 1, result->generation);
	look(run);
	EXPECT_EQ(2, run->subsystem_count);
}

static void on_drained(void *arg, int res)
{
	EXPECT_EQ(0, res);
	((struct run *)arg)->drained++;
}

/* Before the answer to this change, which is the fourth. */
static void on_change_ended(void *arg, const struct change_result *result)
{
	struct run *run = arg;

	EXPECT_EQ(0, result->res);
	EXPECT_EQ(3, run->applied);
	EXPECT_EQ(run->generation_first + 2, daemon_generation(run->daemon));
	run->changes_ended++;
}

static void change_twice(struct run *run)
{
	struct change dry = {.edit = edit_add_b, .done = on_dry, .arg = run, .is_dry_run = true};
	struct change first = {.edit = edit_add_b,
			       .done = on_applied,
			       .arg = run,
			       .expected_generation = run->generation_first};
	struct change second = {.edit = edit_add_c,
				.done = on_stale,
				.arg = run,
				.expected_generation = run->generation_first};
	struct change third = {.edit = edit_add_c,
			       .done = on_applied,
			       .ended = on_change_ended,
			       .drained = on_drained,
			       .arg = run,
			       .expected_generation = run->generation_first + 1};

	run->stop_after = 4;
	daemon_change(run->daemon, &dry);
	daemon_change(run->daemon, &first);
	daemon_change(run->daemon, &second);
	daemon_change(run->daemon, &third);
	EXPECT_EQ(0, run->applied);
}

static void changes_follow_each_other_and_survive(void)
{
	struct daemon_options options = {.start = DAEMON_RESET};
	struct run run = {.next = change_twice};
	uint64_t generation;

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(4, run.applied);
	EXPECT_EQ(1, run.changes_ended);
	EXPECT_EQ(1, run.drained);
	EXPECT_EQ(0, run.applied_res);
	EXPECT_EQ(3, run.subsystem_count);
	EXPECT_EQ(run.generation_first + 2, run.generation);
	generation = run.generation;

	/* The same source: the kept state is used. */
	options = (struct daemon_options){.run_for_ms = 1};
	run = (struct run){.next = serve_on};
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(3, run.subsystem_count);
	EXPECT_EQ(generation, run.generation_first);

	/* No source: the kept state is used. */
	options = (struct daemon_options){.run_for_ms = 1};
	run = (struct run){.next = serve_on, .has_no_source = true};
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(3, run.subsystem_count);
	EXPECT_EQ(generation, run.generation_first);

	/* Another source: refused, unless it is to replace the kept state. */
	options = (struct daemon_options){.run_for_ms = 1};
	run = (struct run){.next = serve_on};
	EXPECT_EQ(1, run_daemon(&run, TWO, &options));
	EXPECT_EQ(0, run.started);
	options = (struct daemon_options){.run_for_ms = 1, .start = DAEMON_RESET};
	run = (struct run){.next = serve_on};
	EXPECT_EQ(0, run_daemon(&run, TWO, &options));
	EXPECT_EQ(2, run.subsystem_count);
	EXPECT_EQ(generation + 1, run.generation_first);
}

static void on_shut_down(void *arg, struct change_result *result)
{
	struct run *run = arg;

	run->applied++;
	EXPECT_EQ(-ESHUTDOWN, result->res);
}

static void stop_and_change(struct run *run)
{
	const struct change late = {.edit = edit_add_b, .done = on_shut_down, .arg = run};

	daemon_change(run->daemon, &late);
	daemon_stop(run->daemon, 0);
	daemon_change(run->daemon, &late);
}

static void changes_that_wait_hear_of_the_end(void)
{
	struct daemon_options options = {.start = DAEMON_RESET};
	struct run run = {.next = stop_and_change};

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(2, run.applied);
	EXPECT_EQ(0, unsafe_shutdowns());
}

static void on_private_gone(struct daemon *daemon, int res, void *arg)
{
	struct run *run = arg;

	EXPECT_EQ(0, res);
	look(run);
	EXPECT_EQ(2, run->subsystem_count);
	EXPECT_EQ(run->generation_first + 1, daemon_generation(daemon));
	daemon_stop(daemon, 0);
}

/* A change of the document leaves state outside the document unchanged. */
static void on_changed_beside(void *arg, struct change_result *result)
{
	struct run *run = arg;

	EXPECT_EQ(0, result->res);
	look(run);
	EXPECT_EQ(3, run->subsystem_count);
	EXPECT(snapshot_find_subsystem(target_snapshot(daemon_target(run->daemon)),
				       "nqn.2026-11.io.weft:p") != NULL);
	daemon_set_private(run->daemon, NULL, on_private_gone, run);
}

static void on_private_set(struct daemon *daemon, int res, void *arg)
{
	struct run *run = arg;
	json_t *document = config_to_json(daemon_config(daemon));
	char *text = json_dumps(document, 0);

	EXPECT_EQ(0, res);
	look(run);
	EXPECT_EQ(2, run->subsystem_count);
	EXPECT(text && !strstr(text, "io.weft:p"));
	free(text);
	json_decref(document);
	daemon_change(daemon, &(struct change){.edit = edit_add_b,
					       .done = on_changed_beside,
					       .arg = run,
					       .origin = "test"});
}

static void set_private(struct run *run)
{
	static const struct daemon_private private = {.nqn = "nqn.2026-11.io.weft:p",
						      .host_nqn = "nqn.2014-08.org.h:h",
						      .media_spec = "mem:1M",
						      .port_id = 1};

	daemon_set_private(run->daemon, &private, on_private_set, run);
}

static void a_private_subsystem_is_in_no_document(void)
{
	struct daemon_options options = {.start = DAEMON_RESET};
	struct run run = {.next = set_private};

	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
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

/* Listens on the address as another process would. Returns the socket. */
static int take_address(const char *text, struct net_addr *ret_addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	net_addr_parse(text, 0, ret_addr);
	if (bind(fd, (struct sockaddr *)&ret_addr->storage, ret_addr->len_bytes) == 0)
		EXPECT_EQ(0, listen(fd, 1));
	ret_addr->len_bytes = sizeof(ret_addr->storage);
	EXPECT_EQ(0, getsockname(fd, (struct sockaddr *)&ret_addr->storage, &ret_addr->len_bytes));
	return fd;
}

static void a_taken_address_is_fatal_unless_chosen(void)
{
	struct daemon_options options = {.run_for_ms = 1, .has_discovery = true};
	struct run run = {.next = serve_on};
	struct net_addr usual;
	int fd = take_address("127.0.0.1:0", &options.discovery), usual_fd;

	EXPECT_EQ(1, run_daemon(&run, ONE, &options));
	EXPECT_EQ(0, run.started);
	EXPECT_EQ(1, run.ended);
	/* The default port is taken, by another process or by this one. */
	options.discovery_is_auto = true;
	usual_fd = take_address("127.0.0.1:8009", &usual);
	EXPECT_EQ(0, run_daemon(&run, ONE, &options));
	EXPECT_EQ(1, run.started);
	EXPECT_EQ(1, run.port_count);
	close(fd);
	close(usual_fd);
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

/* A start waits for an address in use, until its deadline. */
static void an_address_in_use_is_waited_for(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t deadline_ns;
	struct net_addr addr;

	EXPECT_EQ(0, net_addr_parse("127.0.0.1:0", 0, &addr));
	CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&addr.storage, addr.len_bytes) == 0 &&
	      listen(fd, 1) == 0 &&
	      getsockname(fd, (struct sockaddr *)&addr.storage, &addr.len_bytes) == 0);
	EXPECT_EQ(-EADDRINUSE, address_probe(&addr));
	deadline_ns = clock_monotonic_ns() + 50 * NS_PER_MS;
	address_wait(&addr, deadline_ns);
	EXPECT(clock_monotonic_ns() >= deadline_ns);
	close(fd);
	EXPECT_EQ(0, address_probe(&addr));
	deadline_ns = clock_monotonic_ns() + 600 * NS_PER_S;
	address_wait(&addr, deadline_ns);
	EXPECT(clock_monotonic_ns() < deadline_ns);
}

static void a_path_in_use_is_waited_for(void)
{
	char path[sizeof(state_dir) + 8];
	struct unix_name name;
	uint64_t deadline_ns;
	int fd;

	snprintf(path, sizeof(path), "%s.sock", state_dir);
	EXPECT_EQ(0, unix_socket_listen(path, 1, &fd, &name));
	deadline_ns = clock_monotonic_ns() + 50 * NS_PER_MS;
	address_wait_unix(path, deadline_ns);
	EXPECT(clock_monotonic_ns() >= deadline_ns);
	close(fd);
	deadline_ns = clock_monotonic_ns() + 600 * NS_PER_S;
	address_wait_unix(path, deadline_ns);
	EXPECT(clock_monotonic_ns() < deadline_ns);
	EXPECT_EQ(-1, access(path, F_OK));
	unix_name_remove(&name);
}

/* The store keeps this hash. If it changed, a start after an update would be refused. */
static void flags_have_the_hash_that_they_always_had(void)
{
	const char *listens[] = {"127.0.0.1:4420"}, *specs[] = {"mem:1M"};
	const char *hosts[] = {"nqn.2014-08.org.example:h1"}, *rights[] = {"any=format"};
	struct config_flags flags = {.nqn = "nqn.2026-11.io.weft:a",
				     .listens = listens,
				     .listen_count = 1,
				     .namespaces = specs,
				     .ns_count = 1,
				     .hosts = hosts,
				     .host_count = 1,
				     .rights = rights};
	char hash[STORE_HASH_BYTES];

	start_hash_flags(&flags, hash);
	EXPECT_STR("cb50daf6c8a9c95910846df8469eb58db3fd4be3431e3a6676ad179e310295e8", hash);
	flags.rights_count = 1;
	start_hash_flags(&flags, hash);
	EXPECT_STR("3339bb731ad2c23800993e89e332683545b16b87660c5ca4fc4d649731559f4b", hash);
	start_hash_flags(&(struct config_flags){0}, hash);
	EXPECT_STR("2bf44d5aee5ce4a8acc4997ecfc32e127eade50bd2675b3795c118c18835fd2f", hash);
}

int main(void)
{
	if (!root_make())
		return 1;
	snprintf(config_path, sizeof(config_path), "%s/weft.json", root);
	snprintf(state_dir, sizeof(state_dir), "%s/state", root);
	TAP_RUN(ends_by_itself);
	TAP_RUN(a_signal_is_an_orderly_end);
	TAP_RUN(a_stray_signal_leaves_it_stoppable);
	TAP_RUN(a_signal_before_the_start_ends_it);
	TAP_RUN(a_reload_is_applied);
	TAP_RUN(what_cannot_be_applied_changes_nothing);
	TAP_RUN(changes_follow_each_other_and_survive);
	TAP_RUN(changes_that_wait_hear_of_the_end);
	TAP_RUN(a_private_subsystem_is_in_no_document);
	TAP_RUN(a_failure_is_the_exit_status);
	TAP_RUN(a_taken_address_is_fatal_unless_chosen);
	TAP_RUN(a_second_daemon_is_refused);
	TAP_RUN(an_address_in_use_is_waited_for);
	TAP_RUN(a_path_in_use_is_waited_for);
	TAP_RUN(flags_have_the_hash_that_they_always_had);
	return root_end();
}
