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
/* serve_args.c. True to go on, else the exit status is in *ret_exit. */
bool serve_args_parse(int argc, char **argv, struct serve_args *args, int *ret_exit);

/* serve_banner.c: what a person wants to know after the listeners stand. */
void serve_banner_print(FILE *to, const struct target *target);
/* What a configuration would export, without opening anything. */
void serve_config_print(FILE *to, const struct config *config);
/* An address that a host on this machine can connect to: "any" becomes the loopback address. */
void serve_reachable_addr(const struct target *target, const struct port *port,
			  struct net_addr *ret_addr);

/*
 * serve_selfcheck.c: writes, verifies and reads a private namespace in a file of its own, over our
 * own TCP port. All on the control reactor; `done` is called there, with false after the failure
 * was printed.
 */
struct selfcheck;
/* NULL after a message. */
struct selfcheck *selfcheck_prepare(const char *state_dir);
/* Once the listeners stand. */
void selfcheck_start(struct selfcheck *check, struct daemon *daemon,
		     void (*done)(struct daemon *daemon, bool is_good, void *arg), void *arg);
/* Ends it early, without calling that a failure. */
void selfcheck_cancel(struct selfcheck *check);
/* Stops it if it still runs, removes its file, frees it. After the control reactor's last turn. */
void selfcheck_end(struct selfcheck *check);

#endif
