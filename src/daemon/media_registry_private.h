/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The media registry as its two files see it: media_registry.c (what there is, and how it is asked
 * for) and media_registry_end.c (the end of a transaction). Control thread only.
 */
#ifndef WEFT_DAEMON_MEDIA_REGISTRY_PRIVATE_H
#define WEFT_DAEMON_MEDIA_REGISTRY_PRIVATE_H

#include "base/list.h"
#include "cluster/peers.h"
#include "daemon/media_records.h"
#include "daemon/media_registry.h"
#include "daemon/removed_ns.h"
#include "ns/ns_live.h"

/* Common to the three kinds; first in each. */
struct registry_entry {
	struct list node;
	bool is_new;  /* made in this transaction */
	bool is_used; /* asked for in this transaction */
};

struct store_entry {
	struct registry_entry entry;
	char *key;
	struct ns_store *store;   /* counted */
	struct ns_store *next;    /* counted; takes its place with the commit. NULL: it stays */
	struct media_record kept; /* as the store has it; size 0: it has none */
	bool is_given_up; /* in this transaction: it is lost, and an empty file takes its place */
	bool is_held;     /* likewise: no host may use it */
	/* As the store has it under the UUID; of clustered namespaces. nil: it has none. */
	struct media_record served;
	struct uuid served_uuid;
};

struct live_entry {
	struct registry_entry entry;
	struct uuid uuid;
	struct ns_live *live;         /* counted */
	struct subsystem_live *owner; /* from the commit on; not counted: its entry lives as long */
	bool wants_protection;        /* likewise */
	/* The file that it leaves behind with this commit; path NULL: none. */
	char *left_path;
	struct media_record left_record;
};

struct subsystem_entry {
	struct registry_entry entry;
	char nqn[NVME_NQN_BYTES];
	struct subsystem_live *live; /* counted */
};

struct mark {
	struct list node;
	struct uuid uuid;
};

struct media_registry {
	struct list stores, lives, subsystems;
	void *stores_by_key, *lives_by_uuid, *subsystems_by_nqn; /* tsearch's, of the same */
	struct media_records *records; /* of files that the start expects */
	struct removed_list *removed;  /* namespaces that may come back */
	struct uuid retry;             /* nil: none */
	bool is_recreated;
	struct list marks;
	struct list ana_transitions;
	struct list ana_holds;
	unsigned reactor_count;
	bool has_begun;
	bool has_started;
	bool is_unkept; /* the document of this transaction */
	struct keeper keeper;
	struct peers *peers; /* NULL: no other process serves the same */
};

/* Out of its list and tree; what is counted is put. */
void registry_release_store(struct media_registry *registry, struct store_entry *entry);
void registry_release_live(struct media_registry *registry, struct live_entry *entry);
void registry_release_subsystem(struct media_registry *registry, struct subsystem_entry *entry);
/* Opening, growing or taking back may have heard that the kernel has lost writes of hosts: the
 * marks of these namespaces are drawn and kept (target/loss.h). */
void registry_note_losses(struct media_registry *registry);
/* NULL: there is none. */
struct live_entry *registry_find_live(const struct media_registry *registry,
				      const struct uuid *uuid);
/* Whether a medium of this path is open. */
bool registry_finds_path(const struct media_registry *registry, const char *path);
/* The path in the key of a store; NULL: not of a file. */
const char *registry_key_path(const char *key);

#endif
