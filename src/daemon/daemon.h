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
	/* The listeners stand. The callee ends with daemon_serve or daemon_stop. */
	void (*started)(struct daemon *daemon, void *arg);
	/* An orderly end begins: stop using the target. May be NULL. */
	void (*stopping)(void *arg);
	/* No callback follows; the control reactor still exists. May be NULL. */
	void (*ended)(void *arg);
	void *arg;
};

/*
 * Where operators reach the process. It lies above this folder, so its functions come as a table:
 * api_functions of api/api.h.
 */
struct daemon_api {
	/* The listeners of hosts stand. 0, or -errno after the reason was logged; *ret_api may be
	 * NULL with 0: nothing is listened on. */
	int (*start)(struct daemon *daemon, const struct api_options *options,
		     struct api **ret_api);
	/* `stopped` may be called from inside this call. */
	void (*stop)(struct api *api, void (*stopped)(void *arg), void *arg);
	/* After stopped, when no change is under way any more. NULL is harmless. */
	void (*destroy)(struct api *api);
};

/* What becomes of the saved state when the source is another one; see daemon/start.h. */
enum daemon_start {
	DAEMON_SAME,  /* the start is refused, unless both say the same */
	DAEMON_RESET, /* it is replaced, and a copy of it kept */
	DAEMON_MERGE, /* what the source adds and changes is applied over it */
};

struct daemon_options {
	const char *state_dir;
	const char *config_path; /* what SIGHUP reads again; NULL: started from flags */
	/* What the source (file or flags) says, and a hash of it; see daemon/start.h. NULL: no
	 * source was named, taken_config is for a first start. */
	struct config *taken_config;
	const char *source_hash;
	const json_t *source; /* as it was written, for DAEMON_MERGE */
	enum daemon_start start;
	unsigned reactor_count; /* 0: one per CPU that this process may use */
	uint32_t spin_max_us;
	bool is_pinned;         /* each reactor stays on a CPU of its own */
	uint64_t run_for_ms;    /* from daemon_serve on; 0: until told */
	bool has_discovery;     /* add a port that answers discovery alone */
	bool discovery_is_auto; /* at daemon_choose_discovery's address, if that is free */
	struct net_addr discovery;
	const struct daemon_api *api; /* NULL: operators have signals alone */
	const struct api_options *api_options;
	struct daemon_hooks hooks;
};

/* The first listener's address, port 8009. False: none, or the configuration has such a port. */
bool daemon_choose_discovery(const struct config *config, struct net_addr *ret_addr);

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
	/* The desired state is checked, applied to every reactor and kept; or nothing of it is.
	 * Called before daemon_change returns when there is no memory to queue the change. */
	void (*done)(void *arg, struct change_result *result);
	/* May be NULL: as of target_apply_and_drain, after done, about the scope. */
	void (*drained)(void *arg, int res);
	/* What the change concerns, when `drained` is given: asked for after the edit. */
	struct target_scope (*scope)(void *arg);
	void *arg;
	const char *origin;           /* who asks, for log and audit: "rest", "host NQN"; copied */
	uint64_t expected_generation; /* 0: any; else -ESTALE when it is another by then */
	bool is_dry_run;              /* check and compare only */
	bool is_forced;  /* build and apply even when the document says the same as before: what
			    is beside it has changed (Format NVM under way) */
	bool is_of_host; /* waits until no change of the operator does */
	bool is_continuation; /* the next step of something that has begun: goes before all that
				 waits */
};

/*
 * Copies *change. Any number may wait; each sees the outcome of those before it. done is never
 * called from inside this call. A change that changes nothing is a success and leaves the
 * generation as it is. Once an end was asked for, done gets -ESHUTDOWN.
 */
void daemon_change(struct daemon *daemon, const struct change *change);
/* As changes_cancel (daemon/change.h). */
bool daemon_change_cancel(struct daemon *daemon, const struct change *change);
/* Of the desired state; rises with every change that was applied, and survives restarts. */
uint64_t daemon_generation(const struct daemon *daemon);

/* An orderly end was asked for: what takes long ends early. */
bool daemon_is_stopping(const struct daemon *daemon);

struct reactor *daemon_control(const struct daemon *daemon);
const struct target *daemon_target(const struct daemon *daemon);
/* The desired state in force: what a document exported now says. NULL before the start. */
const struct config *daemon_config(const struct daemon *daemon);
struct store *daemon_store(const struct daemon *daemon);
/* Media, live state and marks beside the document (daemon/media_registry.h). */
struct media_registry *daemon_registry(const struct daemon *daemon);

/* What the process knows of itself, for people. The pointers stay good until its end. */
struct daemon_facts {
	struct target *target;
	struct reactor *const *reactors; /* those that do the work */
	unsigned reactor_count;
	struct uuid id;
	uint64_t starts;
	uint64_t unsafe_shutdowns;
	const char *state_dir;
	struct peers *peers; /* NULL: no other process serves the same namespaces */
};

void daemon_get_facts(const struct daemon *daemon, struct daemon_facts *ret_facts);

/*
 * One subsystem of one namespace beside the desired state, for one host alone: for the self-check.
 * It is in no document and never kept. The texts stay the caller's and live as long as it is set.
 */
struct daemon_private {
	const char *nqn;
	const char *host_nqn;
	const char *media_spec;
	uint16_t port_id; /* where it is offered at least */
	struct uuid uuid; /* made by the daemon */
};

/*
 * Sets or, with NULL, removes it. `applied` gets 0, or -errno after the reason was logged and
 * nothing has changed; once an end was asked for it is not called.
 */
void daemon_set_private(struct daemon *daemon, const struct daemon_private *private,
			void (*applied)(struct daemon *daemon, int res, void *arg), void *arg);

#endif
