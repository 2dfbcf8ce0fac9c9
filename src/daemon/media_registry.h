/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives configurations: the media that are open, by what they are (the path of a file, or
 * the namespace whose memory it is), the live state of namespaces (by UUID) and subsystems (by
 * NQN), and marks that no document has. Control thread only: opening and closing may block.
 *
 * A change is a transaction: media_registry_begin, any number of _get, _sync, then _commit or
 * _rollback.
 * What changed of a medium that stays open (its size, its block size) is in force from the commit
 * on; before, the former one is kept beside it. A change that is in force and cannot be kept is
 * taken back so: build the former configuration again and apply it, then _rollback, or, when that
 * failed, _commit.
 */
#ifndef WEFT_DAEMON_MEDIA_REGISTRY_H
#define WEFT_DAEMON_MEDIA_REGISTRY_H

#include "target/target.h"

#include <jansson.h>

struct media_registry;

int media_registry_create(unsigned reactor_count, struct media_registry **ret_registry);
/* Releases everything; media that a snapshot still refers to close with it. */
void media_registry_destroy(struct media_registry *registry);
/* Where live state is read back from; copied. Before the first begin; without: nothing survives. */
void media_registry_set_keeper(struct media_registry *registry, const struct keeper *keeper);

/*
 * Before the first begin: the document that the store has. Its files were served; the start neither
 * makes nor grows one of them that is missing or cut, but offers its namespace as lost. NULL: there
 * is none.
 */
int media_registry_expect(struct media_registry *registry, const json_t *document);
/* Other members of the cluster have a say in what is served (cluster/peers.h). */
struct peers;
void media_registry_set_peers(struct media_registry *registry, struct peers *peers);
/* NULL: there are none. */
struct peers *media_registry_peers(const struct media_registry *registry);
/* A lost namespace is looked at again by the next begin, or its file made anew and empty. */
void media_registry_retry(struct media_registry *registry, const struct uuid *uuid,
			  bool is_recreated);
/* The medium of this namespace; NULL: there is none. */
struct media *media_registry_find(const struct media_registry *registry, const struct uuid *uuid);

/* The file of a namespace that was removed is deleted: nothing of it comes back. */
void media_registry_file_deleted(struct media_registry *registry, const struct uuid *uuid);
/* Namespaces that were removed and may come back: as of daemon/removed_ns.h. */
struct removed_ns;
void media_registry_each_removed(const struct media_registry *registry,
				 void (*look)(void *arg, const struct removed_ns *removed),
				 void *arg);
int media_registry_drop_removed(struct media_registry *registry, const struct uuid *uuid);

/* False: the one that has begun is neither committed nor rolled back; the former configuration is
 * about to come back. */
bool media_registry_begin(struct media_registry *registry);

/* A transaction was committed: hosts are served, and opening must not wait for other processes. */
bool media_registry_has_started(const struct media_registry *registry);

struct media_wish {
	const char *nqn;
	uint32_t nsid;
	const char *spec;
	const struct uuid *uuid;
	struct subsystem_live *owner; /* NULL: nobody's health counts it */
	bool is_protected;            /* write protected for good, as the configuration says */
	bool lifts_protection;        /* the configuration names another protection than that */
	bool is_clustered;            /* other processes serve the medium too, we are `member` */
	unsigned member;
	bool must_not_wait; /* of struct media_terms: media_registry_has_started */
};

/* The store of this namespace, opened, or opened anew, when it is not as wished; the caller gets a
 * reference. */
int media_registry_get(struct media_registry *registry, const struct media_wish *wish,
		       struct ns_store **ret_store, struct media_error *ret_error);
/* After its get: no host may use it yet, so the record of what was served last stays as it is. */
void media_registry_hold(struct media_registry *registry, const struct media_wish *wish);
/* After the last get and before anybody hears of a store: files made or grown since begin are
 * stable. 0 or -errno with ret_error filled. */
int media_registry_sync(struct media_registry *registry, struct media_error *ret_error);
/* The live state of this subsystem; the caller gets a reference. 0 or -errno. */
int media_registry_get_subsystem(struct media_registry *registry, const char *nqn,
				 struct subsystem_live **ret_live);
/*
 * At the start of a member of a cluster, after the last get: namespaces that were removed before
 * have no medium here, and a former process of this member may still write to their files. Waits
 * for that, as opening does, so that who answers for this member has nothing that can come late.
 * Other members that hold these files are watched.
 */
void media_registry_settle(struct media_registry *registry, unsigned member);
/* Before the document of a change that is in force is kept: the namespaces that leave with it, and
 * leave a file behind, are known as removed. */
void media_registry_note_leaving(struct media_registry *registry);
/* The change is kept: what nobody got is released, and its live state forgotten. */
void media_registry_commit(struct media_registry *registry);
/* Likewise of a change that is in force and could not be kept. */
void media_registry_commit_unkept(struct media_registry *registry);
/* What was opened since begin is released; files that were made or grown for it are as before. */
void media_registry_rollback(struct media_registry *registry);
unsigned media_registry_count(const struct media_registry *registry);

/* Format NVM under way: the next snapshot says so. 0 or -ENOMEM; unmarking cannot fail. */
int media_registry_set_formatting(struct media_registry *registry, const struct uuid *uuid,
				  bool is_formatting);
bool media_registry_is_formatting(const struct media_registry *registry, const struct uuid *uuid);

/* Groups on their way to another ANA state: daemon/ana_change.c's own, kept here because they
 * stand beside the document like the marks above. */
struct list *media_registry_ana_transitions(struct media_registry *registry);
/* The same of groups that the document puts into `change`: daemon/ana_hold.c's. */
struct list *media_registry_ana_holds(struct media_registry *registry);

/* Measures how much space the stores take (NUSE), and looks whether their files are there and have
 * room; blocks for a few system calls each. */
void media_registry_measure(struct media_registry *registry, uint64_t now_ns);

/* What was kept in the last transaction of the store is not: it could not be ended. Everything that
 * counts as kept is kept again at the next occasion. */
void media_registry_set_unkept(struct media_registry *registry);
/* Keeps the health of every subsystem: once a minute, and at the orderly end. */
void media_registry_keep_health(struct media_registry *registry, bool is_end);

#endif
