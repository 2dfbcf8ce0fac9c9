/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the serving process: state folder, reactors, target, signals, reload, shutdown.
 *
 * daemon_run occupies the calling thread, which becomes the control reactor's. All callbacks and
 * all other functions here run on that reactor; they may block.
 */
#ifndef WEFT_DAEMON_DAEMON_H
#define WEFT_DAEMON_DAEMON_H

#include "config/config.h"
#include "reactor/reactor.h"
#include "target/target.h"

struct api;
struct api_options;
struct daemon;
struct peers;
struct store;

struct daemon_hooks {
	/* The listeners are open. The callee must end with daemon_serve or daemon_stop. */
	void (*started)(struct daemon *daemon, void *arg);
	/* An orderly end begins: the callee must stop using the target. May be NULL. */
	void (*stopping)(void *arg);
	/* The last callback. The control reactor still exists. May be NULL. */
	void (*ended)(void *arg);
	void *arg;
};

/*
 * The operators' access to the process. The folder api/ is a layer above this one, so its functions
 * come as a table: api_functions of api/api.h.
 */
struct daemon_api {
	/* Called when the listeners for hosts are open. 0, or -errno after the reason was logged.
	 * With 0, *ret_api may be NULL: no address to listen on. */
	int (*start)(struct daemon *daemon, const struct api_options *options,
		     struct api **ret_api);
	/* `stopped` may be called from inside this call. */
	void (*stop)(struct api *api, void (*stopped)(void *arg), void *arg);
	/* Called after `stopped`, when no change is under way. NULL is harmless. */
	void (*destroy)(struct api *api);
};

/* What happens to the saved state when the source has changed; see daemon/start.h. */
enum daemon_start {
	DAEMON_SAME,  /* the start is refused, unless source and state are equal */
	DAEMON_RESET, /* the source replaces the state, and a copy of the state is kept */
	DAEMON_MERGE, /* what the source adds and changes is applied to the state */
};

struct daemon_options {
	const char *state_dir;
	const char *config_path; /* file that SIGHUP reads again; NULL: started from flags */
	/* The configuration of the source (file or flags), and a hash of the source; see
	 * daemon/start.h. source_hash NULL: no source was named, and taken_config is for a first
	 * start. */
	struct config *taken_config;
	const char *source_hash;
	const json_t *source; /* as written, for DAEMON_MERGE */
	enum daemon_start start;
	unsigned reactor_count; /* 0: one per CPU that this process may use */
	uint32_t spin_max_us;
	bool is_pinned;         /* each reactor stays on a CPU of its own */
	uint64_t run_for_ms;    /* from daemon_serve on; 0: no limit */
	bool has_discovery;     /* add a port for discovery only */
	bool discovery_is_auto; /* use daemon_choose_discovery's address, if free */
	struct net_addr discovery;
	const struct daemon_api *api; /* NULL: operators have only signals */
	const struct api_options *api_options;
	struct daemon_hooks hooks;
};

/* Returns the first listener's host with port 8009. False: no listener, or the configuration has a
 * discovery port. */
bool daemon_choose_discovery(const struct config *config, struct net_addr *ret_addr);

/* Takes ownership of taken_config. Returns the exit status of the process: 0 after an orderly
 * end. */
int daemon_run(const struct daemon_options *options);

/* Ends start-up: the time of --run-for begins. */
void daemon_serve(struct daemon *daemon);
/* Begins an orderly end, with this exit status unless something fails on the way. */
void daemon_stop(struct daemon *daemon, int exit_status);

/* ---- changes of the desired state: the one way for REST, hosts' commands and reloads ----------
 */

/* The result of a change. */
struct change_result {
	int res;             /* 0, or -errno: nothing has changed */
	uint64_t generation; /* of the desired state, after a success */
	struct config_errors errors;
	/* Success, but commands that the change no longer allows still run in a medium that does
	 * not end them (target/barrier.h). */
	bool is_late;
	char *diff; /* config_diff of before and after; the callee may take ownership (set NULL) */
};

struct change {
	/*
	 * Edits the document, which is a copy. Called when the change begins. 0, or -errno with an
	 * error: -ENOENT unknown, -EEXIST exists already, -EBUSY in use, -EINVAL wrong.
	 */
	int (*edit)(json_t *document, void *arg, struct config_errors *errors);
	/* Success: the desired state was checked, applied to every reactor and kept. Without
	 * `drained`, commands from which the change takes a right have ended, too. Error: nothing
	 * has changed. Called before daemon_change returns when there is no memory to queue the
	 * change. */
	void (*done)(void *arg, struct change_result *result);
	/* Called once, before `done` and before the next change begins: `done` may wait for
	 * commands, and other changes run meanwhile. Effects that must not undo a later change
	 * belong here. May be NULL. */
	void (*ended)(void *arg, const struct change_result *result);
	/* Called after `done`, for the commands of the scope, as by target_apply_and_drain. Not
	 * called after an error. May be NULL. */
	void (*drained)(void *arg, int res);
	/* Returns the scope of `drained`. Called after the edit, only when `drained` is given. */
	struct target_scope (*scope)(void *arg);
	void *arg;
	const char *origin;           /* who asks, for log and audit: "rest", "host NQN"; copied */
	uint64_t expected_generation; /* 0: any; else -ESTALE when the generation differs by then */
	bool is_dry_run;              /* check and compare only */
	bool is_forced;  /* build and apply even an unchanged document, because state beside it has
			    changed (Format NVM under way) */
	bool is_of_host; /* waits until no change of the operator waits */
	bool is_continuation; /* the next step of work that has begun: runs before all waiting
				 changes */
};

/*
 * Copies *change. Any number of changes may wait; each sees the outcome of those before it. `done`
 * is not called from inside this call, except without memory to queue the change. A change that
 * changes nothing is a success and leaves the generation as it is. After daemon_stop, `done` gets
 * -ESHUTDOWN.
 */
void daemon_change(struct daemon *daemon, const struct change *change);
/* As changes_cancel (daemon/change.h). */
bool daemon_change_cancel(struct daemon *daemon, const struct change *change);
/* Calls changes_refresh (daemon/change.h). False: no change is under way or waits, so a change of
 * the caller would begin at once. */
struct changes_refresh;
bool daemon_refresh(struct daemon *daemon, struct changes_refresh *refresh);
/* The generation of the desired state. Rises with every applied change, and survives restarts. */
uint64_t daemon_generation(const struct daemon *daemon);

/* An orderly end was requested: long operations must end early. */
bool daemon_is_stopping(const struct daemon *daemon);

struct reactor *daemon_control(const struct daemon *daemon);
const struct target *daemon_target(const struct daemon *daemon);
/* The desired state in force, as an export would write it. NULL before the start. */
const struct config *daemon_config(const struct daemon *daemon);
struct store *daemon_store(const struct daemon *daemon);
/* Media, live state and marks beside the document (daemon/media_registry.h). */
struct media_registry *daemon_registry(const struct daemon *daemon);

/* Facts about the process for reports to people. The pointers stay valid until the process ends. */
struct daemon_facts {
	struct target *target;
	struct reactor *const *reactors; /* the data reactors */
	unsigned reactor_count;
	struct uuid id;
	uint64_t starts;
	uint64_t unsafe_shutdowns;
	const char *state_dir;
	struct peers *peers; /* NULL: the document has no cluster */
};

void daemon_get_facts(const struct daemon *daemon, struct daemon_facts *ret_facts);

/*
 * One subsystem with one namespace beside the desired state, for one host only: for the self-check.
 * Not part of any document, and never kept. The caller owns the strings, which must stay valid
 * while the subsystem is set.
 */
struct daemon_private {
	const char *nqn;
	const char *host_nqn;
	const char *media_spec;
	uint16_t port_id; /* the subsystem is offered at least here */
	struct uuid uuid; /* generated by the daemon */
};

/*
 * Sets the private subsystem, or removes it with NULL. `applied` gets 0, or -errno after the reason
 * was logged and nothing has changed. After daemon_stop, `applied` is not called.
 */
void daemon_set_private(struct daemon *daemon, const struct daemon_private *private,
			void (*applied)(struct daemon *daemon, int res, void *arg), void *arg);

#endif
