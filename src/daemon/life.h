/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which a daemon starts and ends: media, peers, target and changes are made, the first
 * document is applied, peers agree, the daemon serves; and back. Private to daemon.c, which is the
 * process around it, and to simulated processes. struct daemon and the functions of daemon.h that
 * others call are here, but for daemon_run.
 *
 * Control reactor, or its thread before the reactor runs.
 */
#ifndef WEFT_DAEMON_LIFE_H
#define WEFT_DAEMON_LIFE_H

#include "daemon/boot.h"
#include "daemon/daemon.h"
#include "daemon/start.h"
#include "daemon/state.h"

/* What the process does at the steps of the daemon's life. */
struct life_hooks {
	/* The document has a cluster: the secret of its members into cluster->peers. 0, or -errno
	 * with an error. */
	int (*read_secret)(struct daemon *daemon, struct config_cluster *cluster,
			   struct config_errors *errors);
	/* Then the reactor of the links to other members. 0 or -errno. */
	int (*make_peers_reactor)(struct daemon *daemon, struct reactor **ret_reactor);
	/* It cannot start, and the reason was logged. May be NULL. */
	void (*failed)(struct daemon *daemon, int res, const char *why);
	/* Listeners stand and members agree. Ends with daemon_serve or daemon_stop. */
	void (*started)(struct daemon *daemon);
	/* From daemon_serve. */
	void (*serving)(struct daemon *daemon);
	/* No change is under way: ends what uses the target, then calls `stopped`, maybe from
	 * inside. */
	void (*stopping)(struct daemon *daemon, void (*stopped)(void *arg), void *arg);
	/* Nothing of the daemon is under way on any reactor. */
	void (*ended)(struct daemon *daemon);
};

struct daemon {
	/* The process fills these in before life_make. */
	const struct life_hooks *hooks;
	struct state state;
	struct start start; /* until it has begun */
	enum daemon_start start_kind;
	struct reactor *control;
	struct reactor **reactors;
	unsigned reactor_count;
	unsigned buf_counts[3]; /* as struct target_config's */
	bool tells_boot; /* hosts are told of lost power: the boot ID of the machine is known */

	struct target *target;
	struct media_registry *registry;
	struct changes *changes;
	struct peers *peers; /* NULL: no other process serves the same */
	struct reactor_timer health_timer;
	struct reactor_timer tick_timer;
	unsigned ticks;
	struct reactor_msg end_msg;
	int exit_status;
	bool is_stopping;      /* asked for */
	bool is_shutting_down; /* under way */
	bool is_clean;         /* no write that was acknowledged is lost */
	struct boot_record boot;
	void (*private_applied)(struct daemon *daemon, int res, void *arg);
	void *private_arg;
};

/* Registry of media, peers, target, changes. 0, or -errno after the reason was logged. */
int life_make(struct daemon *daemon);
/* The first document; `started` follows, or `failed` and the end. On the control reactor. */
void life_begin(struct daemon *daemon);

#endif
