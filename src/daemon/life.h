/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which a daemon starts and ends. Media registry, peers, target and changes are
 * created, the first document is applied, the peers agree, and the daemon serves. The end reverses
 * these steps. Private to daemon.c, which is the process around the daemon, and to simulated
 * processes. Has struct daemon, and the functions of daemon.h except daemon_run.
 *
 * Control reactor, or its thread before the reactor runs.
 */
#ifndef WEFT_DAEMON_LIFE_H
#define WEFT_DAEMON_LIFE_H

#include "daemon/boot.h"
#include "daemon/change.h"
#include "daemon/daemon.h"
#include "daemon/start.h"
#include "daemon/state.h"

/* What the process does at the steps of the daemon's life. */
struct life_hooks {
	/* The document has a cluster: reads the secret of its members into cluster->peers. 0, or
	 * -errno with an error. */
	int (*read_secret)(struct daemon *daemon, struct config_cluster *cluster,
			   struct config_errors *errors);
	/* After read_secret: creates the reactor of the links to other members. 0 or -errno. */
	int (*make_peers_reactor)(struct daemon *daemon, struct reactor **ret_reactor);
	/* The daemon cannot start. The reason was logged. May be NULL. */
	void (*failed)(struct daemon *daemon, int res, const char *why);
	/* The listeners are open and the members agree. Must end with daemon_serve or
	 * daemon_stop. */
	void (*started)(struct daemon *daemon);
	/* Called by daemon_serve. */
	void (*serving)(struct daemon *daemon);
	/* No change is under way. Must end what uses the target, then call `stopped`, maybe from
	 * inside. */
	void (*stopping)(struct daemon *daemon, void (*stopped)(void *arg), void *arg);
	/* Nothing of the daemon is under way on any reactor. */
	void (*ended)(struct daemon *daemon);
};

struct daemon {
	/* The process fills these in before life_make. */
	const struct life_hooks *hooks;
	struct state state;
	struct start start; /* taken over by life_begin */
	enum daemon_start start_kind;
	struct reactor *control;
	struct reactor **reactors;
	unsigned reactor_count;
	unsigned buf_counts[3]; /* as in struct target_config */
	bool tells_boot; /* report lost power to hosts: the boot ID of the machine is known */

	struct target *target;
	struct media_registry *registry;
	struct changes *changes;
	struct peers *peers; /* NULL: the document has no cluster */
	struct reactor_timer health_timer;
	struct reactor_timer tick_timer;
	unsigned ticks;
	struct changes_refresh hold; /* ends holds of ANA groups that are due */
	struct reactor_msg end_msg;
	int exit_status;
	bool is_stopping;      /* daemon_stop was called */
	bool is_shutting_down; /* the shutdown is under way */
	bool is_clean;         /* no acknowledged write is lost */
	struct boot_record boot;
	void (*private_applied)(struct daemon *daemon, int res, void *arg);
	void *private_arg;
};

/* Creates the media registry, peers, target and changes. 0, or -errno after the reason was
 * logged. */
int life_make(struct daemon *daemon);
/* Frees what life_make has made and what the start has chosen. The target was destroyed, nothing of
 * the daemon is under way, and the control reactor exists. */
void life_release(struct daemon *daemon);
/* Applies the first document; then `started` is called, or `failed` and the end begins. On the
 * control reactor. */
void life_begin(struct daemon *daemon);

#endif
