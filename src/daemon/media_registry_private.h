/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The media registry as its files see it: media_registry.c (its parts, marks),
 * media_registry_open.c (open media), media_registry_live.c (live state), media_registry_end.c (the
 * end of a transaction), and others of daemon/ that look at entries. Control thread only.
 */
#ifndef WEFT_DAEMON_MEDIA_REGISTRY_PRIVATE_H
#define WEFT_DAEMON_MEDIA_REGISTRY_PRIVATE_H

#include "base/list.h"
#include "cluster/peers.h"
#include "daemon/media_closing.h"
#include "daemon/media_openings.h"
#include "daemon/media_records.h"
#include "daemon/media_registry.h"
#include "daemon/removed_ns.h"
#include "media/event.h"
#include "ns/ns_live.h"

/* Common to the three kinds of entries; the first member of each. */
struct registry_entry {
	struct list node;
	bool is_new;  /* created in this transaction */
	bool is_used; /* asked for in this transaction */
};

struct entry_served {
	struct uuid uuid;
	struct media_record record;
};

struct backing_entry {
	struct registry_entry entry;
	char *key;
	struct ns_backing *backing; /* a counted reference */
	struct ns_backing *next;    /* a counted reference; replaces `backing` at the commit. NULL:
				       `backing` stays */
	struct media_record kept;   /* the record in the state store; size 0: none */
	/* In this transaction: the medium is lost, and an empty file replaces it. */
	bool is_given_up;
	/* In this transaction: the medium passes to another namespace, and its gate is shared so
	 * that no large deallocation is or gets there (registry_drop_gate). */
	bool has_gate;
	/* In this transaction: no host may use the namespace. */
	bool is_withheld;
	/* The store was another namespace's, and the document does not have the change yet: of
	 * `backing`, and of `next`. */
	bool has_passed;
	bool next_has_passed;
	/* What the state store has under the UUID, for clustered namespaces. NULL: unknown. */
	struct entry_served *served;
};

struct live_entry {
	struct registry_entry entry;
	struct uuid uuid;
	struct ns_live *live;         /* a counted reference */
	struct subsystem_live *owner; /* from the commit on; not counted: its entry lasts as long */
	bool wants_protection;        /* from the commit on */
	/* The medium in force; not counted: releasing the entry clears the pointer. NULL: the
	 * namespace is not in force. */
	struct backing_entry *served;
	/* The file that the namespace leaves behind with this commit; left_path NULL: none. */
	char *left_path;
	struct media_record *left_record; /* NULL: left_path is NULL too */
};

struct subsystem_entry {
	struct registry_entry entry;
	char nqn[NVME_NQN_BYTES];
	struct subsystem_live *live; /* a counted reference */
};

struct mark {
	struct list node;
	struct uuid uuid;
};

struct media_registry {
	struct list backings, lives, subsystems;
	void *backings_by_key, *lives_by_uuid,
		*subsystems_by_nqn;    /* roots of tsearch over the lists */
	struct media_closing *closing; /* outlives the registry */
	struct media_openings openings;
	struct media_listener listener; /* of all open media; reactor NULL: none */
	struct media_records *records;  /* files that the start expects */
	struct removed_list *removed;   /* removed namespaces that may come back */
	struct uuid retry;              /* namespace to recheck or to recreate; nil: none */
	bool is_recreated;
	struct uuid forgiven;   /* namespace whose lost writes are forgiven; nil: none */
	uint64_t forgiven_loss; /* media_loss when the operator asked: a later loss stays */
	struct list marks;
	struct list ana_transitions;
	struct list ana_holds;
	unsigned reactor_count;
	bool has_begun;
	bool has_started;
	bool is_unkept; /* the document of this transaction could not be kept */
	bool is_kept;   /* the document of this transaction is kept */
	/* In this transaction: the change was not kept, and the former configuration is built. */
	bool is_taking_back;
	struct keeper keeper;
	struct peers *peers; /* NULL: not a member of a cluster */
};

/* Adds the new entry to the list and the tree of its kind. `key_order` compares whole entries. 0 or
 * -ENOMEM. */
int registry_entry_add(struct registry_entry *entry, struct list *list, void **tree,
		       int (*key_order)(const void *a, const void *b));
/* The live state for a wish, created or recalled if unknown. 0, or -errno with ret_error filled. */
int registry_get_live(struct media_registry *registry, const struct media_wish *wish,
		      struct ns_live **ret_live, struct media_error *ret_error);
/* Puts a reference of the registry, which hears the medium's events no more. */
void registry_put_backing(struct ns_backing *backing);
/* Each removes the entry from its list and tree, and puts its references. */
void registry_release_backing(struct media_registry *registry, struct backing_entry *entry);
void registry_release_live(struct media_registry *registry, struct live_entry *entry);
void registry_release_subsystem(struct media_registry *registry, struct subsystem_entry *entry);
/* Drops the gate that the transaction has, if any. Waiting deallocations are judged again then:
 * those of a namespace that has lost the medium end. */
void registry_drop_gate(struct backing_entry *entry);
/* Opening, growing or taking back may have found that the kernel lost writes of hosts. Draws new
 * loss marks for these namespaces and keeps them (target/loss.h). */
void registry_note_losses(struct media_registry *registry);
/* Counts how long removed namespaces have been removed; is_end: as in removed_age. */
void registry_age_removed(struct media_registry *registry, bool is_end);
/* NULL: unknown. */
struct live_entry *registry_find_live(const struct media_registry *registry,
				      const struct uuid *uuid);
/* Whether a medium of this path is open; true without memory. */
bool registry_finds_path(const struct media_registry *registry, const char *path);
/* The path in the key of a backing; NULL: its medium is not a file. */
const char *registry_key_path(const char *key);

#endif
