/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The join of controllers into one subsystem; see join.h. Any thread, under the join's lock: calls
 * are as rare as connections and changes of namespaces. NVMe Base 2.1, sections 5.1.13.2.1 and
 * 4.7.1.
 *
 * Evidence is kept by address, because all reactors connect to the same addresses. The serial
 * number seen last at an address is its word. The word is kept while the address has no controller.
 * A new controller is refused while the word of another address contradicts it.
 *
 * An address that reported the CNTLID of another address's live controller is refused while that
 * controller exists: its next attempt would report another CNTLID. Afterwards the conflict proves
 * nothing, because the target may have ended that controller and given its CNTLID away. An instance
 * counts only while its controller is live: a restarted target has another one.
 */
#include "host/join.h"

#include "base/check.h"
#include "base/lock.h"
#include "base/sorted.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_ADDRS_MAX 64 /* number of bits in join_ns.vouchers */
#define LOST_SHOWN     8  /* most NSIDs in the text of a loss */
#define NS_ROOM_MIN    16

_Static_assert(JOIN_ADDRS_MAX <= LOSS_ADDRS_MAX, "addresses of the book of losses");

struct join_addr {
	struct host_addr addr;
	char name[HOST_ADDR_TEXT_BYTES];
	unsigned users; /* number of join_ctrls; 0: may be reused when all others are taken */
	/* The live controller whose CNTLID this address reported, and the CNTLID. NULL: none. */
	const struct join_ctrl *rival;
	uint16_t rival_cntlid;
};

struct join {
	_Atomic unsigned refs;
	pthread_mutex_t lock;
	struct join_addr addrs[JOIN_ADDRS_MAX];
	struct list ctrls;
	uint32_t epoch;       /* counts changes of the subsystem's serial number */
	struct join_ns **nss; /* ascending NSIDs; ns_count used of ns_room */
	struct list replaced; /* by join_ns.node */
	struct loss_book book;
	char lost[JOIN_WHY_BYTES]; /* for join_loss_take; "": no new loss */
	unsigned ns_count;
	unsigned ns_room;
};

/* ---- life ----------------------------------------------------------------------------------- */

struct join *join_create(void)
{
	struct join *join = calloc(1, sizeof(*join));

	if (join == NULL)
		return NULL;
	atomic_init(&join->refs, 1);
	lock_init(&join->lock);
	list_init(&join->ctrls);
	list_init(&join->replaced);
	return join;
}

struct join *join_get(struct join *join)
{
	atomic_fetch_add(&join->refs, 1);
	return join;
}

void join_put(struct join *join)
{
	struct list *node;

	if (join == NULL || atomic_fetch_sub(&join->refs, 1) != 1)
		return;
	CHECK(list_empty(&join->ctrls));
	for (unsigned i = 0; i < join->ns_count; i++)
		free(join->nss[i]);
	while ((node = list_pop_front(&join->replaced)) != NULL)
		free(list_entry(node, struct join_ns, node));
	free(join->nss);
	pthread_mutex_destroy(&join->lock);
	free(join);
}

/* ---- controllers ---------------------------------------------------------------------------- */

/* Finds a free index, preferably one that was never used. JOIN_ADDRS_MAX: none is free. */
static unsigned addr_room(const struct join *join)
{
	unsigned place = JOIN_ADDRS_MAX;

	for (unsigned i = 0; i < JOIN_ADDRS_MAX; i++) {
		if (join->addrs[i].users == 0 &&
		    (place == JOIN_ADDRS_MAX || join->addrs[i].name[0] == '\0'))
			place = i;
		if (place < JOIN_ADDRS_MAX && join->addrs[place].name[0] == '\0')
			break;
	}
	return place;
}

/* Finds or assigns the index of an address. JOIN_ADDRS_MAX: no room. An address that comes back
 * gets its former index, under which its former boot is still known. Call with the lock held. */
static unsigned addr_place(struct join *join, const struct host_addr *addr)
{
	unsigned place;

	for (unsigned i = 0; i < JOIN_ADDRS_MAX; i++) {
		if (join->addrs[i].name[0] != '\0' && host_addr_same(&join->addrs[i].addr, addr))
			return i;
	}
	place = addr_room(join);
	if (place < JOIN_ADDRS_MAX) {
		join->addrs[place] = (struct join_addr){.addr = *addr};
		host_addr_format(addr, join->addrs[place].name);
		loss_addr_forget(&join->book, place);
	}
	return place;
}

int join_ctrl_add(struct join *join, struct join_ctrl *ctrl, const struct host_addr *addr)
{
	unsigned place;

	lock_take(&join->lock);
	place = addr_place(join, addr);
	if (place < JOIN_ADDRS_MAX) {
		*ctrl = (struct join_ctrl){.addr_index = place};
		join->addrs[place].users++;
		list_push_back(&join->ctrls, &ctrl->node);
	}
	lock_release(&join->lock);
	return place < JOIN_ADDRS_MAX ? 0 : -ENOSPC;
}

/* Checks whether the namespace reports a new mark of lost writes. Call with the lock held. */
static void mark_judge(struct join *join, struct join_ns *ns)
{
	const struct ns_identity *identity = &ns->identity;

	if (identity->loss_source != 0 &&
	    loss_ns_see(&ns->loss, identity->loss_source, identity->loss_mark))
		snprintf(join->lost, sizeof(join->lost),
			 "a flush has failed at the target: acknowledged writes that were not "
			 "flushed may be lost, in namespace %u; its next flush fails",
			 ns->nsid);
}

/* These caches are lost, and with them the writes that were not flushed. Call with the lock
 * held. */
static void losses_judge(struct join *join, LOSS_CACHE_BITS lost)
{
	char nsids[16 * LOST_SHOWN] = "";
	size_t used = 0;
	unsigned count = 0;

	for (unsigned i = 0; lost != 0 && i < join->ns_count; i++) {
		if (!loss_ns_judge(&join->nss[i]->loss, lost))
			continue;
		if (count++ < LOST_SHOWN)
			used += (size_t)snprintf(nsids + used, sizeof(nsids) - used, "%s%u",
						 used > 0 ? ", " : "", join->nss[i]->nsid);
	}
	if (count > 0)
		snprintf(
			join->lost, sizeof(join->lost),
			"the target's machine lost power or was restarted with acknowledged writes "
			"that were not flushed: they may be lost, in %u namespace%s (%s%s); the "
			"next flush of each fails",
			count, count > 1 ? "s" : "", nsids, count > LOST_SHOWN ? ", ..." : "");
}

bool join_loss_take(struct join *join, char text[JOIN_WHY_BYTES])
{
	lock_take(&join->lock);
	text_copy(text, JOIN_WHY_BYTES, join->lost);
	join->lost[0] = '\0';
	lock_release(&join->lock);
	return text[0] != '\0';
}

/* The path's controller has ended: conflicts with its CNTLID prove nothing any more. Call with the
 * lock held. */
static void ctrl_end(struct join *join, struct join_ctrl *ctrl)
{
	if (ctrl->is_live)
		losses_judge(join, loss_leave(&join->book, ctrl->cache));
	ctrl->is_live = false;
	for (unsigned i = 0; i < JOIN_ADDRS_MAX; i++) {
		if (join->addrs[i].rival == ctrl)
			join->addrs[i].rival = NULL;
	}
}

void join_ctrl_remove(struct join *join, struct join_ctrl *ctrl)
{
	lock_take(&join->lock);
	ctrl_end(join, ctrl);
	list_remove(&ctrl->node);
	/* Another address may get the index. */
	if (--join->addrs[ctrl->addr_index].users == 0) {
		for (unsigned i = 0; i < join->ns_count; i++)
			join->nss[i]->vouchers &= ~(1ull << ctrl->addr_index);
	}
	lock_release(&join->lock);
}

void join_ctrl_leave(struct join *join, struct join_ctrl *ctrl)
{
	lock_take(&join->lock);
	ctrl_end(join, ctrl);
	lock_release(&join->lock);
}

bool join_same_subsystem(const struct ctrl_identity *a, const struct ctrl_identity *b)
{
	return strcmp(a->subsystem_nqn, b->subsystem_nqn) == 0 && strcmp(a->serial, b->serial) == 0;
}

static const char *name_of(const struct join *join, const struct join_ctrl *ctrl)
{
	return join->addrs[ctrl->addr_index].name;
}

static int rival_refuse(const struct join *join, const struct join_ctrl *ctrl,
			char why[JOIN_WHY_BYTES])
{
	const struct join_addr *addr = &join->addrs[ctrl->addr_index];

	snprintf(why, JOIN_WHY_BYTES,
		 "%s and %s both have a controller with ID %u: they are two subsystems with the "
		 "same NQN, not two paths to one subsystem; %s is not used",
		 name_of(join, addr->rival), addr->name, addr->rival_cntlid, addr->name);
	return -EUCLEAN;
}

static int cntlid_judge(struct join *join, const struct join_ctrl *ctrl, uint16_t cntlid,
			char why[JOIN_WHY_BYTES])
{
	struct join_addr *addr = &join->addrs[ctrl->addr_index];

	if (addr->rival != NULL)
		return rival_refuse(join, ctrl, why);
	list_for_each(node, &join->ctrls) {
		const struct join_ctrl *other = list_entry(node, struct join_ctrl, node);

		if (other == ctrl || !other->is_live || other->cntlid != cntlid)
			continue;
		if (other->addr_index == ctrl->addr_index) {
			snprintf(why, JOIN_WHY_BYTES,
				 "controller ID %u is still in use by another connection to %s",
				 cntlid, name_of(join, ctrl));
			return -EBUSY;
		}
		addr->rival = other;
		addr->rival_cntlid = cntlid;
		return rival_refuse(join, ctrl, why);
	}
	return 0;
}

static bool is_nil(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

static bool instance_is_told(const uint8_t *instance)
{
	return !is_nil(instance, IDENTIFY_INSTANCE_BYTES);
}

/*
 * Finds a live controller of another process that does not share its namespaces with this
 * controller's process. NULL: none. One controller that reports to be clustered is enough: the
 * other one's Identify Controller was read before the first clustered namespace was added. Call
 * with the lock held.
 */
static const struct join_ctrl *stranger_find(const struct join *join, const struct join_ctrl *ctrl)
{
	if (ctrl->is_clustered || !instance_is_told(ctrl->instance))
		return NULL;
	list_for_each(node, &join->ctrls) {
		const struct join_ctrl *other = list_entry(node, struct join_ctrl, node);

		if (other != ctrl && other->is_live && !other->is_clustered &&
		    instance_is_told(other->instance) &&
		    memcmp(other->instance, ctrl->instance, IDENTIFY_INSTANCE_BYTES) != 0)
			return other;
	}
	return NULL;
}

static int instance_judge(const struct join *join, const struct join_ctrl *ctrl,
			  char why[JOIN_WHY_BYTES])
{
	const struct join_ctrl *other = stranger_find(join, ctrl);

	if (other == NULL)
		return 0;
	snprintf(why, JOIN_WHY_BYTES,
		 "%s is another target process than %s, and they have no clustered namespace: a "
		 "copy of the target, or the target was restarted and %s is about to be lost; %s "
		 "is not used meanwhile",
		 name_of(join, ctrl), name_of(join, other), name_of(join, other),
		 name_of(join, ctrl));
	return -EUCLEAN;
}

bool join_ctrl_is_barred(struct join *join, const struct join_ctrl *ctrl)
{
	bool is_barred;

	lock_take(&join->lock);
	is_barred =
		join->addrs[ctrl->addr_index].rival != NULL || stranger_find(join, ctrl) != NULL;
	lock_release(&join->lock);
	return is_barred;
}

/* A peer may report any bytes. Lines for people must have no control characters. */
static void why_clean(char why[JOIN_WHY_BYTES])
{
	for (char *c = why; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			*c = '?';
	}
}

static int word_judge(const struct join *join, const struct join_ctrl *ctrl,
		      const struct ctrl_identity *identity, char why[JOIN_WHY_BYTES])
{
	list_for_each(node, &join->ctrls) {
		const struct join_ctrl *other = list_entry(node, struct join_ctrl, node);

		if (other->addr_index == ctrl->addr_index || !other->has_word ||
		    strcmp(other->serial, identity->serial) == 0)
			continue;
		snprintf(why, JOIN_WHY_BYTES,
			 "%s has serial number \"%s\" and %s has \"%s\": they are two subsystems "
			 "with the same NQN, not two paths to one subsystem; %s is not used",
			 name_of(join, other), other->serial, name_of(join, ctrl), identity->serial,
			 name_of(join, ctrl));
		why_clean(why);
		return -EUCLEAN;
	}
	return 0;
}

/* Makes the serial number the word of the address. A different word of other controllers at the
 * same address is withdrawn. Call with the lock held. */
static void word_take(struct join *join, struct join_ctrl *ctrl,
		      const struct ctrl_identity *identity)
{
	bool is_news = false;

	list_for_each(node, &join->ctrls) {
		struct join_ctrl *same = list_entry(node, struct join_ctrl, node);

		if (same->addr_index != ctrl->addr_index || !same->has_word ||
		    strcmp(same->serial, identity->serial) == 0)
			continue;
		same->has_word = false;
		is_news = true;
	}
	join->epoch += is_news;
	text_copy(ctrl->serial, sizeof(ctrl->serial), identity->serial);
	ctrl->has_word = true;
}

int join_ctrl_enter(struct join *join, struct join_ctrl *ctrl, const struct ctrl_identity *identity,
		    char why[JOIN_WHY_BYTES])
{
	LOSS_CACHE_BITS lost;
	int res;

	lock_take(&join->lock);
	ctrl_end(join, ctrl);
	memcpy(ctrl->instance, identity->instance, sizeof(ctrl->instance));
	ctrl->is_clustered = identity->is_clustered;
	res = word_judge(join, ctrl, identity, why);
	/* Check the instance before the CNTLID: a restarted target may assign any CNTLID. */
	if (res == 0)
		res = instance_judge(join, ctrl, why);
	if (res == 0)
		res = cntlid_judge(join, ctrl, identity->cntlid, why);
	if (res == 0) {
		word_take(join, ctrl, identity);
		ctrl->is_live = true;
		ctrl->cntlid = identity->cntlid;
		ctrl->cache = loss_enter(&join->book, ctrl->addr_index, identity, &lost);
		losses_judge(join, lost);
	} else if (res == -EUCLEAN) {
		/* Withdraw the word, or two addresses of a replaced target would refuse each
		 * other. */
		ctrl->has_word = false;
	}
	lock_release(&join->lock);
	return res;
}

int join_ctrl_confirm(struct join *join, struct join_ctrl *ctrl, char why[JOIN_WHY_BYTES])
{
	const struct join_addr *addr = &join->addrs[ctrl->addr_index];
	int res = 0;

	lock_take(&join->lock);
	if (addr->rival != NULL) {
		res = rival_refuse(join, ctrl, why);
		ctrl->has_word = false;
	}
	lock_release(&join->lock);
	return res;
}

/* ---- namespaces ----------------------------------------------------------------------------- */

/* Index of the first entry whose NSID is not below nsid. Call with the lock held. */
static unsigned ns_place(const struct join *join, uint32_t nsid)
{
	return SORTED_PLACE(i, join->ns_count, join->nss[i]->nsid < nsid);
}

/* Compares one kind of identifier. False: they differ. Sets *is_common if both report it. */
static bool id_agrees(const uint8_t *a, const uint8_t *b, size_t bytes, bool *is_common)
{
	if (is_nil(a, bytes) || is_nil(b, bytes))
		return true;
	*is_common = true;
	return memcmp(a, b, bytes) == 0;
}

static bool has_id(const struct ns_identity *identity)
{
	return !uuid_is_nil(&identity->uuid) || !is_nil(identity->nguid, sizeof(identity->nguid)) ||
	       !is_nil(identity->eui64, sizeof(identity->eui64));
}

static bool is_same(const struct join *join, const struct join_ns *ns,
		    const struct join_sight *sight)
{
	const struct ns_identity *identity = sight->identity;
	const struct ns_identity *old = &ns->identity;
	bool is_common = false;

	if (!id_agrees(old->uuid.bytes, identity->uuid.bytes, sizeof(old->uuid.bytes),
		       &is_common) ||
	    !id_agrees(old->nguid, identity->nguid, sizeof(old->nguid), &is_common) ||
	    !id_agrees(old->eui64, identity->eui64, sizeof(old->eui64), &is_common))
		return false;
	if (is_common)
		return true;
	/* Only one of them reports identifiers: too weak to mix their data. */
	if (has_id(old) || has_id(identity))
		return false;
	return !sight->is_event && ns->epoch == join->epoch &&
	       old->block_bytes == identity->block_bytes &&
	       old->block_count == identity->block_count;
}

static struct join_ns *ns_create(const struct join *join, uint32_t nsid,
				 const struct ns_identity *identity)
{
	struct join_ns *ns = calloc(1, sizeof(*ns));

	if (ns == NULL)
		return NULL;
	ns->nsid = nsid;
	ns->identity = *identity;
	ns->epoch = join->epoch;
	list_init(&ns->node);
	return ns;
}

static int ns_insert(struct join *join, unsigned place, struct join_ns *ns)
{
	if (join->ns_count == join->ns_room) {
		unsigned room = join->ns_room > 0 ? join->ns_room * 2 : NS_ROOM_MIN;
		struct join_ns **table = realloc(join->nss, room * sizeof(struct join_ns *));

		if (table == NULL)
			return -ENOMEM;
		join->nss = table;
		join->ns_room = room;
	}
	memmove(&join->nss[place + 1], &join->nss[place],
		(join->ns_count - place) * sizeof(struct join_ns *));
	join->nss[place] = ns;
	join->ns_count++;
	return 0;
}

/* The lowest index of an address, other than `but`, that vouches for the namespace. JOIN_ADDRS_MAX:
 * none. */
static unsigned voucher_find(const struct join_ns *ns, unsigned but)
{
	uint64_t others = ns->vouchers & ~(1ull << but);

	return others != 0 ? (unsigned)__builtin_ctzll(others) : JOIN_ADDRS_MAX;
}

/* The NSID has another namespace than before. Call with the lock held. */
static int ns_replace(struct join *join, unsigned place, const struct join_ctrl *ctrl,
		      const struct ns_identity *identity, char why[JOIN_WHY_BYTES])
{
	struct join_ns *old = join->nss[place];
	unsigned voucher;
	struct join_ns *ns;

	old->vouchers &= ~(1ull << ctrl->addr_index);
	voucher = voucher_find(old, ctrl->addr_index);
	/* Without identifiers only notices show a replacement, and each address sends its own, so
	 * the other addresses are not asked. */
	if (voucher < JOIN_ADDRS_MAX && (has_id(&old->identity) || has_id(identity))) {
		snprintf(why, JOIN_WHY_BYTES,
			 "namespace %u at %s has another UUID, NGUID or EUI64 than at %s: %s is "
			 "not used for it",
			 old->nsid, name_of(join, ctrl), join->addrs[voucher].name,
			 name_of(join, ctrl));
		return -EUCLEAN;
	}
	ns = ns_create(join, old->nsid, identity);
	if (ns == NULL)
		return -ENOMEM;
	join->nss[place] = ns;
	list_push_back(&join->replaced, &old->node);
	atomic_store_explicit(&old->is_replaced, true, memory_order_release);
	return 0;
}

/* Adds identifiers that are newly reported. Keeps identifiers that are not reported any more. */
static void identity_take(struct ns_identity *to, const struct ns_identity *from)
{
	struct ns_identity old = *to;

	*to = *from;
	if (uuid_is_nil(&to->uuid))
		to->uuid = old.uuid;
	if (is_nil(to->nguid, sizeof(to->nguid)))
		memcpy(to->nguid, old.nguid, sizeof(to->nguid));
	if (is_nil(to->eui64, sizeof(to->eui64)))
		memcpy(to->eui64, old.eui64, sizeof(to->eui64));
}

static int ns_see(struct join *join, const struct join_ctrl *ctrl, const struct join_sight *sight,
		  struct join_ns **ret_ns, char why[JOIN_WHY_BYTES])
{
	unsigned place = ns_place(join, sight->nsid);
	struct join_ns *ns;
	int res = 0;

	if (place == join->ns_count || join->nss[place]->nsid != sight->nsid) {
		ns = ns_create(join, sight->nsid, sight->identity);
		res = ns == NULL ? -ENOMEM : ns_insert(join, place, ns);
		if (res != 0)
			free(ns);
	} else if (!is_same(join, join->nss[place], sight)) {
		res = ns_replace(join, place, ctrl, sight->identity, why);
	}
	if (res != 0)
		return res;
	ns = join->nss[place];
	identity_take(&ns->identity, sight->identity);
	mark_judge(join, ns);
	ns->vouchers |= 1ull << ctrl->addr_index;
	*ret_ns = ns;
	return 0;
}

int join_ns_see(struct join *join, const struct join_ctrl *ctrl, const struct join_sight *sight,
		struct join_ns **ret_ns, char why[JOIN_WHY_BYTES])
{
	int res;

	lock_take(&join->lock);
	res = ns_see(join, ctrl, sight, ret_ns, why);
	lock_release(&join->lock);
	return res;
}

void join_ns_unsee(struct join *join, const struct join_ctrl *ctrl, struct join_ns *ns)
{
	lock_take(&join->lock);
	ns->vouchers &= ~(1ull << ctrl->addr_index);
	lock_release(&join->lock);
}

void join_ns_gone(struct join *join, struct join_ns *ns)
{
	unsigned place;

	lock_take(&join->lock);
	place = ns_place(join, ns->nsid);
	/* Without identifiers a different namespace that comes back could not be recognised, so the
	 * entry ends now. */
	if (ns->vouchers == 0 && !has_id(&ns->identity) && place < join->ns_count &&
	    join->nss[place] == ns) {
		memmove(&join->nss[place], &join->nss[place + 1],
			(join->ns_count - place - 1) * sizeof(struct join_ns *));
		join->ns_count--;
		list_push_back(&join->replaced, &ns->node);
		atomic_store_explicit(&ns->is_replaced, true, memory_order_release);
	}
	lock_release(&join->lock);
}
