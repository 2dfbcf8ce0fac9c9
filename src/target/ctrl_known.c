/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host of a controller knows of namespaces that changed under its NSIDs: their formats and
 * identities. Identify writes on the controller's reactor. I/O queues read on any reactor.
 * docs/adr/0025 (formats), docs/adr/0033 (identities).
 *
 * The table has only namespaces that changed since the controller connected. All others are judged
 * by their generation alone. Readers take no lock: they read single words, and an outgrown table
 * stays until the controller is freed.
 */
#include "target/local.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Formats. After a change of the block size the LBAs of a host mean other bytes than the host
 * believes. A read or write is detected, because its data has the wrong length. Dataset Management,
 * Write Zeroes and similar commands would erase the wrong blocks and report success. Such commands
 * are answered with Namespace Not Ready, without DNR, until this controller has read the
 * namespace's page (CNS 00h) after the change.
 *
 * Identities. An NSID that was given to another namespace means the former namespace to every host
 * that was connected then. All commands of such a host are refused until its controller has read
 * the identifiers (CNS 03h) of the new namespace, and for KNOWN_SETTLE_MS after that: a host needs
 * time to act on what it has read, and commands that it had sent before may still arrive. The
 * notice of the change (NVMe Base 2.1, section 5.1.2.1) makes hosts look the first time. A second
 * notice after KNOWN_SETTLE_MS makes those hosts look again that have dropped the former namespace
 * without taking the new one (Linux does).
 */
#define KNOWN_TABLE_MIN 16 /* entries */
/* Time from the host's read of a new identity until its commands mean that identity. Shorter than
 * the time for which weft's own host retries a command (host/mpath_io.c: 310 ms). */
#define KNOWN_SETTLE_MS 250

/* Generations are stored plus one; 0: none. */
struct known_entry {
	_Atomic uint32_t nsid;     /* 0: free */
	_Atomic uint64_t format;   /* ns->format_generation that the host has read */
	_Atomic uint64_t identity; /* ns->identity_generation that the host's commands mean */
	_Atomic uint64_t settling; /* becomes `identity` at settle_at_ns */
	uint64_t settle_at_ns;     /* used by the controller's reactor only */
};

struct known_table {
	struct known_table *older;
	uint32_t room; /* entries; a power of two */
	uint32_t count;
	struct known_entry entries[];
};

/* ---- the table ------------------------------------------------------------------------------- */

/* The entry of the NSID, or the free entry where the NSID belongs. A table is never full. */
static struct known_entry *table_place(struct known_table *table, uint32_t nsid)
{
	uint32_t at = (nsid * 2654435761u) & (table->room - 1);

	for (;; at = (at + 1) & (table->room - 1)) {
		uint32_t there =
			atomic_load_explicit(&table->entries[at].nsid, memory_order_relaxed);

		if (there == 0 || there == nsid)
			return &table->entries[at];
	}
}

/* NULL: the host has read nothing of this NSID since it changed. */
static const struct known_entry *table_find(const struct ctrl *ctrl, uint32_t nsid)
{
	struct known_table *table = atomic_load_explicit(&ctrl->known, memory_order_acquire);
	struct known_entry *entry = table ? table_place(table, nsid) : NULL;

	return entry && atomic_load_explicit(&entry->nsid, memory_order_relaxed) != 0 ? entry
										      : NULL;
}

static void entry_copy(struct known_entry *to, struct known_entry *from)
{
	to->settle_at_ns = from->settle_at_ns;
	atomic_init(&to->format, atomic_load_explicit(&from->format, memory_order_relaxed));
	atomic_init(&to->identity, atomic_load_explicit(&from->identity, memory_order_relaxed));
	atomic_init(&to->settling, atomic_load_explicit(&from->settling, memory_order_relaxed));
	atomic_init(&to->nsid, atomic_load_explicit(&from->nsid, memory_order_relaxed));
}

/* Returns a table that is less than half full: `table`, or a larger copy. NULL: out of memory. */
static struct known_table *table_grow(struct known_table *table)
{
	uint32_t room = table ? table->room * 2 : KNOWN_TABLE_MIN;
	struct known_table *larger;

	if (table && table->count < table->room / 2)
		return table;
	larger = calloc(1, sizeof(*larger) + room * sizeof(larger->entries[0]));
	if (!larger)
		return NULL;
	larger->room = room;
	larger->older = table;
	for (uint32_t i = 0; table && i < table->room; i++) {
		struct known_entry *entry = &table->entries[i];
		uint32_t nsid = atomic_load_explicit(&entry->nsid, memory_order_relaxed);

		if (nsid != 0)
			entry_copy(table_place(larger, nsid), entry);
	}
	larger->count = table ? table->count : 0;
	return larger;
}

/* The entry of the NSID, created if missing. NULL: out of memory. */
static struct known_entry *table_take(struct ctrl *ctrl, uint32_t nsid)
{
	struct known_table *table =
		table_grow(atomic_load_explicit(&ctrl->known, memory_order_relaxed));
	struct known_entry *entry;

	if (!table)
		return NULL;
	entry = table_place(table, nsid);
	if (atomic_load_explicit(&entry->nsid, memory_order_relaxed) == 0) {
		atomic_store_explicit(&entry->nsid, nsid, memory_order_relaxed);
		table->count++;
	}
	atomic_store_explicit(&ctrl->known, table, memory_order_release);
	return entry;
}

/* ---- identities settle ----------------------------------------------------------------------- */

static void settle_arm(struct ctrl *ctrl, uint64_t at_ns);

static void entry_set_identity(struct ctrl *ctrl, struct known_entry *entry, uint64_t identity)
{
	atomic_store_explicit(&entry->identity, identity, memory_order_relaxed);
	atomic_store_explicit(&ctrl->has_known_identities, true, memory_order_release);
}

/* From here on the host's commands mean the new namespace. */
static void entry_settle(struct ctrl *ctrl, struct known_entry *entry)
{
	uint32_t nsid = atomic_load_explicit(&entry->nsid, memory_order_relaxed);
	uint64_t settling = atomic_load_explicit(&entry->settling, memory_order_relaxed);
	const struct ns *ns = ctrl_find_ns(ctrl, nsid);

	entry_set_identity(ctrl, entry, settling);
	atomic_store_explicit(&entry->settling, 0, memory_order_relaxed);
	/* The namespace was replaced once more. That change has its own notice. */
	if (!ns || ns->identity_generation + 1 != settling)
		return;
	ctrl_event_note_changed_ns(ctrl, nsid);
	ctrl_event_raise(ctrl, CTRL_EVENT_NS_ATTRIBUTE);
}

static void on_settle_timer(struct reactor_timer *timer)
{
	struct ctrl *ctrl = container_of(timer, struct ctrl, settle_timer);
	struct known_table *table = atomic_load_explicit(&ctrl->known, memory_order_relaxed);
	uint64_t now_ns = reactor_now_ns(ctrl->reactor), next_ns = UINT64_MAX;

	for (uint32_t i = 0; i < table->room; i++) {
		struct known_entry *entry = &table->entries[i];

		if (atomic_load_explicit(&entry->settling, memory_order_relaxed) == 0)
			continue;
		if (entry->settle_at_ns <= now_ns)
			entry_settle(ctrl, entry);
		else if (entry->settle_at_ns < next_ns)
			next_ns = entry->settle_at_ns;
	}
	if (next_ns != UINT64_MAX)
		settle_arm(ctrl, next_ns);
}

static void settle_arm(struct ctrl *ctrl, uint64_t at_ns)
{
	if (!ctrl->settle_timer.reactor)
		reactor_timer_init(ctrl->reactor, &ctrl->settle_timer, on_settle_timer);
	/* A command that ends after its controller must not arm a timer in memory that is about to
	 * be freed. */
	if (ctrl->state == CTRL_LIVE && !ctrl->settle_timer.armed)
		reactor_timer_arm(&ctrl->settle_timer, at_ns);
}

void ctrl_known_stop(struct ctrl *ctrl)
{
	if (ctrl->settle_timer.reactor)
		reactor_timer_cancel(&ctrl->settle_timer);
}

/* ---- Identify was read ----------------------------------------------------------------------- */

static void identity_note(struct ctrl *ctrl, struct known_entry *entry, const struct ns *ns)
{
	uint64_t read = ns->identity_generation + 1;

	if (atomic_load_explicit(&entry->identity, memory_order_relaxed) == read ||
	    atomic_load_explicit(&entry->settling, memory_order_relaxed) == read)
		return;
	/* A controller created under the snapshot of the change never knew the former namespace. */
	if (ns->identity_generation == ctrl->born_generation) {
		entry_set_identity(ctrl, entry, read);
		return;
	}
	entry->settle_at_ns = reactor_now_ns(ctrl->reactor) + KNOWN_SETTLE_MS * NS_PER_MS;
	atomic_store_explicit(&entry->settling, read, memory_order_relaxed);
	settle_arm(ctrl, entry->settle_at_ns);
}

int ctrl_known_note(struct ctrl *ctrl, const struct ns *ns, bool is_page)
{
	/* Reactors swap one after the other. The reactor of an I/O queue may still use the snapshot
	 * before the one under which the controller was created, but no older one. */
	bool has_format = is_page && ns->format_generation >= ctrl->born_generation;
	bool has_identity = !is_page && ns->identity_generation > 0 &&
			    ns->identity_generation >= ctrl->born_generation;
	struct known_entry *entry;

	CHECK_OWNER(ctrl);
	if (!has_format && !has_identity)
		return 0;
	entry = table_take(ctrl, ns->nsid);
	if (!entry)
		return -ENOMEM;
	if (has_format)
		atomic_store_explicit(&entry->format, ns->format_generation + 1,
				      memory_order_relaxed);
	if (has_identity)
		identity_note(ctrl, entry, ns);
	return 0;
}

/* ---- what I/O queues ask --------------------------------------------------------------------- */

bool ctrl_format_is_noted(const struct ctrl *ctrl, const struct ns *ns)
{
	const struct known_entry *entry = table_find(ctrl, ns->nsid);
	uint64_t known = entry ? atomic_load_explicit(&entry->format, memory_order_relaxed) : 0;

	/* The host may have read a newer format than this reactor's snapshot has. */
	return known != 0 ? known == ns->format_generation + 1
			  : ns->format_generation <= ctrl->born_generation;
}

nvme_status ctrl_judge_identity(const struct ctrl *ctrl, const struct ns *ns)
{
	const struct known_entry *entry = table_find(ctrl, ns->nsid);
	uint64_t wanted = ns->identity_generation + 1;
	uint64_t known = entry ? atomic_load_explicit(&entry->identity, memory_order_relaxed) : 0;

	if (known == wanted || (known == 0 && ns->identity_generation <= ctrl->born_generation))
		return NVME_SC_SUCCESS;
	/* Either this reactor's snapshot does not have the namespace yet that the host means, or
	 * the host has just read the identity of the namespace in this snapshot. */
	if (known > wanted ||
	    (entry && atomic_load_explicit(&entry->settling, memory_order_relaxed) == wanted))
		return NVME_SC_NS_NOT_READY;
	log_limited(LOG_LEVEL_WARN, "target",
		    "controller %u: host %s: a command for namespace %u is refused: the namespace "
		    "was replaced, and the host has not read its identity since",
		    ctrl->cntlid, ctrl->host_nqn, ns->nsid);
	return nvme_status_dnr(NVME_SC_INVALID_NS);
}

void ctrl_known_free(struct ctrl *ctrl)
{
	struct known_table *table = atomic_load_explicit(&ctrl->known, memory_order_relaxed);

	while (table) {
		struct known_table *older = table->older;

		free(table);
		table = older;
	}
}
