/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the serving process: state folder, reactors, target, signals, reload, shutdown.
 *
 * daemon_run occupies the calling thread, which becomes the control reactor's. All callbacks and
 * all other functions here run on that reactor; they may block.
 */
#ifndef WEFT_CONTROL_DAEMON_H
#define WEFT_CONTROL_DAEMON_H

#include "control/config.h"
#include "reactor/reactor.h"
#include "target/target.h"

struct daemon;

struct daemon_hooks {
	/* The listeners stand. The callee ends with daemon_serve or daemon_stop. */
	void (*started)(struct daemon *daemon, void *arg);
	/* An orderly end begins: stop using the target. May be NULL. */
	void (*stopping)(void *arg);
	/* No callback follows; the control reactor still exists. May be NULL. */
	void (*ended)(void *arg);
	void *arg;
};

struct daemon_options {
	const char *state_dir;
	const char *config_path; /* what SIGHUP reads again; NULL: started from flags */
	struct config *taken_config;
	unsigned reactor_count; /* 0: one per CPU that this process may use */
	uint32_t spin_max_us;
	uint64_t run_for_ms;        /* from daemon_serve on; 0: until told */
	bool has_discovery;         /* add a port that answers discovery alone */
	bool discovery_is_optional; /* go on without it when its address is taken */
	struct net_addr discovery;
	struct daemon_hooks hooks;
};

/* Returns the exit status of the process: 0 after an orderly end. Takes the configuration over. */
int daemon_run(const struct daemon_options *options);

/* Start-up is over: the time of --run-for begins. */
void daemon_serve(struct daemon *daemon);
/* Orderly end, with this exit status unless something fails on the way. */
void daemon_stop(struct daemon *daemon, int exit_status);

/* ---- changes of the desired state: the one way for REST, hosts' commands and reloads ----------
 */

/* What became of a change. */
struct change_result {
	int res;             /* 0, or -errno: nothing has changed */
	uint64_t generation; /* of the desired state, after a success */
	struct config_errors errors;
	char *diff; /* config_diff of before and after; the callee may take it (set NULL) */
};

struct change {
	/*
	 * Edits the document, which is a copy; called when the change's turn has come. 0, or -errno
	 * with an error: -ENOENT no such thing, -EEXIST there already, -EBUSY in use, -EINVAL
	 * wrong.
	 */
	int (*edit)(json_t *document, void *arg, struct config_errors *errors);
	/* The desired state is checked, applied to every reactor and kept; or nothing of it is. */
	void (*done)(void *arg, struct change_result *result);
	/* May be NULL: as of target_apply_and_drain, after done. */
	void (*drained)(void *arg);
	void *arg;
	uint64_t expected_generation; /* 0: any; else -ESTALE when it is another by then */
	bool is_dry_run;              /* check and compare only */
};

/* Copies *change. Any number may wait; each sees the outcome of those before it. Once an end was
 * asked for, done gets -ESHUTDOWN. */
void daemon_change(struct daemon *daemon, const struct change *change);
/* Of the desired state; rises with every change that was applied, and survives restarts. */
uint64_t daemon_generation(const struct daemon *daemon);

struct reactor *daemon_control(const struct daemon *daemon);
const struct target *daemon_target(const struct daemon *daemon);
/* May be changed by the holder before daemon_apply. */
struct config *daemon_config(struct daemon *daemon);
/*
 * Applies daemon_config as it is now. `applied` gets 0, or -errno after the reason was logged and
 * nothing has changed. Waits its turn when another change is under way; one at a time.
 * Once an end was asked for, nothing is applied and `applied` is not called.
 */
void daemon_apply(struct daemon *daemon, void (*applied)(struct daemon *daemon, int res, void *arg),
		  void *arg);

#endif
