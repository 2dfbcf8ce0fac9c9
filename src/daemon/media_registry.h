/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that outlives configurations: open media (by the path of a file, or by the namespace that
 * owns the memory), the live state of namespaces (by UUID) and of subsystems (by NQN), and marks
 * that no document has. Control thread only: opening and closing may block.
 *
 * A change is a transaction: media_registry_begin, any number of _get, _sync, then _commit or
 * _rollback. A new size or block size of a medium that stays open is in force from the commit on;
 * before, the former medium is kept beside the new one. To take back a change that is in force and
 * cannot be kept: build and apply the former configuration again, then _rollback. If that fails,
 * _commit_unkept.
 *
 * A _get that returns -EINPROGRESS has begun to open a medium that opens late. After all _gets of
 * the transaction: _wait, then _begin and all _gets again.
 */
#ifndef WEFT_DAEMON_MEDIA_REGISTRY_H
#define WEFT_DAEMON_MEDIA_REGISTRY_H

#include "target/target.h"

#include <jansson.h>

struct media_registry;

int media_registry_create(unsigned reactor_count, struct media_registry **ret_registry);
/* Releases everything. A medium that a snapshot still refers to closes with the snapshot. */
void media_registry_destroy(struct media_registry *registry);
/* As media_registry_destroy, while the reactors run: media with state per reactor close there. Then
 * calls `done` on the control reactor, in a turn of its own, after the last medium has closed and
 * the last cancelled opening has ended, or after 5 s. */
void media_registry_close(struct media_registry *registry, struct reactor *control,
			  void (*done)(void *arg), void *arg);
/* The keeper that live state is read from and kept with; copied. Call before the first begin.
 * Without a keeper nothing survives. */
void media_registry_set_keeper(struct media_registry *registry, const struct keeper *keeper);

/* Before the first begin: media are looked at on this reactor, as by media_registry_measure, when
 * they report a change of their size or health. */
void media_registry_listen(struct media_registry *registry, struct reactor *control);

/*
 * Before the first begin: the document in the store; NULL: none. Its files were served. The start
 * neither creates nor grows a missing or cut file, but offers its namespace as lost.
 */
int media_registry_expect(struct media_registry *registry, const json_t *document);
/* The other members of the cluster, which take part in deciding what is served
 * (cluster/peers.h). */
struct peers;
void media_registry_set_peers(struct media_registry *registry, struct peers *peers);
/* NULL: not a member of a cluster. */
struct peers *media_registry_peers(const struct media_registry *registry);
/* The next transaction opens the file of this lost namespace again, or creates it anew and empty. A
 * nil UUID: none. */
void media_registry_retry(struct media_registry *registry, const struct uuid *uuid,
			  bool is_recreated);
/* Flushes of this namespace's medium are allowed again once the change has succeeded. */
void media_registry_forgive(struct media_registry *registry, const struct uuid *uuid);
/* Every change ends with this. Forgives after a success, and forgets what the edit of the change
 * asked for with _retry, _forgive or peers_recheck: nothing of that may act with a later change. */
void media_registry_end_wishes(struct media_registry *registry, bool is_success);
/* The medium of this namespace; NULL: none is open. */
struct media *media_registry_find(const struct media_registry *registry, const struct uuid *uuid);

/* The file of a removed namespace was deleted: forgets what was kept of the namespace. */
void media_registry_file_deleted(struct media_registry *registry, const struct uuid *uuid);
/* Removed namespaces that may come back: as in daemon/removed_ns.h. */
struct removed_ns;
void media_registry_each_removed(const struct media_registry *registry,
				 void (*look)(void *arg, const struct removed_ns *removed),
				 void *arg);
int media_registry_drop_removed(struct media_registry *registry, const struct uuid *uuid);

/* Begins a transaction, or goes on with it after media_registry_wait. False: the previous one is
 * neither committed nor rolled back, because the former configuration is about to come back. */
bool media_registry_begin(struct media_registry *registry);
/* Waits for the media of the transaction that open late, MEDIA_OPEN_LIMIT_S at most. Then calls
 * `done` on the control reactor, in a turn of its own, with 0 to go on, or with -ESHUTDOWN after
 * media_registry_stop_waiting. */
void media_registry_wait(struct media_registry *registry, struct reactor *control,
			 void (*done)(void *arg, int res), void *arg);
void media_registry_stop_waiting(struct media_registry *registry);

/* A transaction was committed: hosts are served, so opening must not wait for other processes. */
bool media_registry_has_started(const struct media_registry *registry);

struct media_wish {
	const char *nqn;
	uint32_t nsid;
	const char *spec;
	const struct uuid *uuid;
	struct subsystem_live
		*owner;        /* the subsystem whose health counts the namespace; NULL: none */
	bool is_protected;     /* the configuration protects against writes for good */
	bool lifts_protection; /* the configuration has another protection than for good */
	bool is_clustered;     /* other processes serve the medium too; this process is `member` */
	unsigned member;
	bool must_not_wait; /* for struct media_terms: media_registry_has_started */
};

/*
 * The backing of this namespace, opened if missing, and opened again if not as wished. The caller
 * gets a reference. *ret_has_passed: the store was another namespace's, and the document with this
 * change is not kept yet. A host that wrote to the store would write to the data of the former
 * namespace, which has the store again when the change is undone or the process is killed. So no
 * host may use the namespace before media_registry_note_kept. 0, -EINPROGRESS, or another -errno
 * with ret_error filled.
 */
int media_registry_get(struct media_registry *registry, const struct media_wish *wish,
		       struct ns_backing **ret_backing, bool *ret_has_passed,
		       struct media_error *ret_error);
/* After the namespace's get: no host may use the namespace yet, so the record of what was served
 * last stays as it is. */
void media_registry_hold(struct media_registry *registry, const struct media_wish *wish);
/* Whether any store of the transaction has passed to another namespace. */
bool media_registry_has_passed_any(const struct media_registry *registry);
/* The document is kept: from the next build on, hosts may use stores that have passed. */
void media_registry_note_kept(struct media_registry *registry);
/* Makes files that were created or grown since begin stable, and keeps large deallocations away
 * from media that pass to another namespace, until the transaction ends. -EBUSY: such a
 * deallocation is in progress. Call after the last get, before a snapshot with these backings is
 * published. 0 or -errno with ret_error filled. */
int media_registry_sync(struct media_registry *registry, struct media_error *ret_error);
/* The live state of this subsystem; the caller gets a reference. 0 or -errno. */
int media_registry_get_subsystem(struct media_registry *registry, const char *nqn,
				 struct subsystem_live **ret_live);
/*
 * At the start of a member of a cluster, after the last get. Namespaces that were removed before
 * have no medium here, but a former process of this member may still write to their files. Waits
 * for those writes, as opening does, so that none comes late, after this member has confirmed a
 * reset. Files that other members hold are watched.
 */
void media_registry_settle(struct media_registry *registry, unsigned member);
/* Before the document of a change in force is kept: records namespaces that leave with the change,
 * and leave a file behind, as removed. */
void media_registry_note_leaving(struct media_registry *registry);
/* The change is kept: releases what the transaction did not ask for, and forgets live state that
 * cannot come back. */
void media_registry_commit(struct media_registry *registry);
/* As media_registry_commit, for a change that is in force and could not be kept. */
void media_registry_commit_unkept(struct media_registry *registry);
/* Releases what was opened since begin. Files that were created or grown are restored, unless hosts
 * have written to them (media_undo). */
void media_registry_rollback(struct media_registry *registry);
unsigned media_registry_count(const struct media_registry *registry);

/* Marks a namespace as under Format NVM in the next snapshot. 0 or -ENOMEM; unmarking cannot
 * fail. */
int media_registry_set_formatting(struct media_registry *registry, const struct uuid *uuid,
				  bool is_formatting);
bool media_registry_is_formatting(const struct media_registry *registry, const struct uuid *uuid);

/* Groups in transition to another ANA state, of daemon/ana_change.c. Kept here, because
 * transitions, like the marks above, are in no document. */
struct list *media_registry_ana_transitions(struct media_registry *registry);
/* Groups that the document puts into `change`, of daemon/ana_hold.c. */
struct list *media_registry_ana_holds(struct media_registry *registry);

/* Measures how much space the media take (NUSE), and checks that their files exist and have room.
 * Blocks for a few system calls per medium. */
void media_registry_measure(struct media_registry *registry, uint64_t now_ns);

/* The last transaction of the state store could not be ended, so its contents were not kept.
 * Everything that counts as kept is kept again at the next occasion. */
void media_registry_set_unkept(struct media_registry *registry);
/* Keeps the health of every subsystem, and how long removed namespaces have been removed. Called
 * once a minute, and at the orderly end. */
void media_registry_keep_health(struct media_registry *registry, bool is_end);

#endif
