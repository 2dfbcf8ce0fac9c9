/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft list-subsys`: opens a subsystem over all its paths, prints the paths with their states like
 * nvme-cli, and exits. One reactor, which runs on the main thread.
 *
 * Prints when every path is live or has failed once, or when the connect time has passed.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/list_subsys.h"
#include "reactor/uring_remedy.h"

#include <string.h>

struct list_run {
	const struct list_subsys_options *options;
	struct reactor *reactor;
	struct mpath *mpath;
	struct reactor_msg start;
	struct reactor_timer timer;
	struct reactor_defer look;
	bool is_ready;
	bool is_printed;
	int exit;
};

static void on_gone(void *arg)
{
	struct list_run *run = arg;

	reactor_stop(run->reactor);
}

static bool run_is_settled(const struct list_run *run)
{
	for (unsigned i = 0; i < mpath_path_count(run->mpath); i++) {
		struct path_info info;

		mpath_path_info(run->mpath, i, &info);
		if (info.state == PATH_CONNECTING)
			return false;
	}
	return run->is_ready;
}

static void run_finish(struct list_run *run)
{
	if (run->is_printed)
		return;
	run->is_printed = true;
	reactor_timer_cancel(&run->timer);
	run->exit = list_subsys_print(run->options, run->mpath);
	mpath_close(run->mpath, on_gone, run);
}

/* Runs at the end of the turn: an mpath callback may run in the middle of a change. */
static void on_look(struct reactor_defer *defer)
{
	struct list_run *run = container_of(defer, struct list_run, look);

	if (run_is_settled(run))
		run_finish(run);
}

static void on_timer(struct reactor_timer *timer)
{
	run_finish(container_of(timer, struct list_run, timer));
}

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	struct list_run *run = arg;

	run->is_ready = true;
	if (res != 0 && error != NULL && error->text[0] != '\0')
		tool_error("list-subsys", "%s", error->text);
	reactor_defer(run->reactor, &run->look);
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	struct list_run *run = arg;

	reactor_defer(run->reactor, &run->look);
}

static const struct mpath_callbacks list_callbacks = {
	.ready = on_ready,
	.path_changed = on_path_changed,
};

/* Runs in the first turn, because an mpath is opened on its reactor. */
static void on_start(struct reactor_msg *msg)
{
	struct list_run *run = container_of(msg, struct list_run, start);
	const struct list_subsys_options *options = run->options;
	uint64_t wait_ns = 2ull * options->config.timeouts.connect_ms * NS_PER_MS;
	int res = mpath_open(run->reactor, &options->config, options->addrs, options->addr_count,
			     &list_callbacks, run, &run->mpath);

	if (res != 0) {
		tool_error("list-subsys", "cannot open the subsystem: %s", strerror(-res));
		reactor_stop(run->reactor);
		return;
	}
	/* Usually `ready` comes first. The timer is for paths that are still neither up nor down
	 * then. */
	reactor_timer_arm(&run->timer, reactor_now_ns(run->reactor) + wait_ns);
}

int cmd_list_subsys(int argc, char **argv)
{
	struct reactor_config config = {.index = 0, .cpu = -1};
	struct list_run run = {.exit = CLI_FAILED};
	int res;

	run.options = list_subsys_args(argc, argv, &res);
	if (run.options == NULL)
		return res;
	/* Errors of a path are printed with the path. */
	log_set_level(LOG_LEVEL_ERROR);
	res = reactor_create(&config, &run.reactor);
	if (res != 0) {
		tool_error("list-subsys", "cannot start io_uring: %s; %s", strerror(-res),
			   uring_remedy(res));
		return CLI_FAILED;
	}
	reactor_timer_init(run.reactor, &run.timer, on_timer);
	reactor_defer_init(&run.look, on_look);
	reactor_post(run.reactor, &run.start, on_start);
	reactor_run(run.reactor);
	reactor_destroy(run.reactor);
	return run.exit;
}
