/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `weft serve`: its options, the banner, the self-check.
 */
#ifndef WEFT_CLI_SERVE_H
#define WEFT_CLI_SERVE_H

#include "api/api.h"
#include "config/config.h"
#include "daemon/daemon.h"

#include <limits.h>
#include <stdio.h>

#define SERVE_LIST_MAX 64

struct serve_list {
	const char *items[SERVE_LIST_MAX];
	unsigned count;
};

struct serve_args {
	const char *config_path;
	const char *nqn;
	struct serve_list listens;
	struct serve_list namespaces;
	struct serve_list hosts;
	struct serve_list rights;
	char state_dir[PATH_MAX];
	bool has_state_dir;
	unsigned reactor_count; /* 0: one per CPU */
	uint32_t spin_max_us;
	bool is_pinned;
	const char *discovery; /* NULL: not given */
	struct api_options api;
	uint64_t run_for_ms;
	bool is_check;
	bool is_self_check;
	enum daemon_start start; /* --reset, --merge */
};

int cmd_serve(int argc, char **argv);
/* serve_args.c. True to continue; false: the exit status is in *ret_exit. */
bool serve_args_parse(int argc, char **argv, struct serve_args *args, int *ret_exit);

/* serve_banner.c: prints what is exported and how to connect, once the listeners are open. */
void serve_banner_print(FILE *to, const struct target *target);
/* Prints what a configuration would export, without opening media or listeners. */
void serve_config_print(FILE *to, const struct config *config);
/* The port's address that a host on this machine can connect to: the "any" address becomes the
 * loopback address. */
void serve_reachable_addr(const struct target *target, const struct port *port,
			  struct net_addr *ret_addr);

/*
 * serve_selfcheck.c: writes, verifies and reads a private namespace in its own file, over the
 * target's own TCP port. All functions and `done` run on the control reactor's thread. A failure is
 * printed before `done` is called with false.
 */
struct selfcheck;
/* NULL after a message. */
struct selfcheck *selfcheck_prepare(const char *state_dir);
/* Starts the self-check, once the listeners are open. */
void selfcheck_start(struct selfcheck *check, struct daemon *daemon,
		     void (*done)(struct daemon *daemon, bool is_good, void *arg), void *arg);
/* Ends the self-check early, without reporting a failure. */
void selfcheck_cancel(struct selfcheck *check);
/* Stops the self-check if it still runs, deletes its file and frees it. Called after the control
 * reactor's last turn. */
void selfcheck_end(struct selfcheck *check);

#endif
