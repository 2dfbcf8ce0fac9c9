/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether all members have the same file, size and block size under one UUID, and which members may
 * serve it to hosts if not (docs/adr/0035-members-compare-files.md). Control reactor.
 *
 * Of different files the newcomer's gives way before a host can use it: a member serves a file only
 * after every member that can be reached has compared it. When two members served because no link
 * was up, the member that began later gives way. Of two members that have not served, the one whose
 * file was refused, or is not the one it served last, gives way; else both wait for the operator. A
 * member keeps serving an open file whose name is gone, because its data exist nowhere else. So a
 * file other than the one served last waits for members out of reach too, and a file other than the
 * refused one waits for the members it was refused for. A refusal lasts over restarts
 * (peer_refusal.c), until the same file is found there or the operator decides.
 */
#include "cluster/peers_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_AGAIN_NS (NS_PER_S / 4)
#define UNSEEN_MIN_NS (2 * NS_PER_S) /* until a missing lock counts as another file */
#define LOG_MAX       16             /* lines per second */

enum sameness {
	IS_SAME,
	IS_OTHER,
	IS_UNSURE, /* the peer's lock is missing, maybe for a moment only */
};

static uint64_t now_of(const struct peers *peers)
{
	return reactor_now_ns(peers->control);
}

/* ---- one file and one peer --------------------------------------------------------------------
 */

static enum sameness lock_look(const struct peers *peers, struct peer_file *file, unsigned peer)
{
	bool is_held = false;
	int res;

	if (file->has_lock & peer_bit(peers, peer))
		return IS_SAME;
	res = member_lock_is_held(file->fd, peers->config.peers[peer].lock, 1, &is_held);
	if (res == 0 && is_held) {
		file->has_lock |= peer_bit(peers, peer);
		file->unseen_ns[peer] = 0;
		return IS_SAME;
	}
	/* A lock can be missing for a moment: a peer that removes the namespace drops its lock
	 * before its next list arrives, and a peer that dies drops its lock before its link is
	 * down. The file differs only when the peer is still heard of long after. */
	if (file->unseen_ns[peer] == 0)
		file->unseen_ns[peer] = now_of(peers);
	return atomic_load(&peers->peers[peer].list_heard_ns) <
			       file->unseen_ns[peer] + UNSEEN_MIN_NS
		       ? IS_UNSURE
		       : IS_OTHER;
}

static enum sameness file_compare(const struct peers *peers, struct peer_file *file, unsigned peer,
				  const struct peer_served *entry)
{
	bool is_near = peer_told_is_near(peers, peers->told[peer]);

	if (file->identity.is_block_device != entry->file.is_block_device)
		return IS_OTHER;
	if (is_near && (file->identity.device != entry->file.device ||
			file->identity.inode != entry->file.inode))
		return IS_OTHER;
	/* Locks on a device node do not reach another machine, so no difference can be seen. */
	if (!is_near && file->identity.is_block_device)
		return IS_SAME;
	return lock_look(peers, file, peer);
}

/* Whether the peer began to serve before us. Both sides come to the same result. */
static bool is_earlier(const struct peers *peers, unsigned peer, const struct peer_served *theirs,
		       const struct peer_served *ours)
{
	bool is_near = peer_told_is_near(peers, peers->told[peer]);
	uint64_t their_ns = is_near ? theirs->since_boot_ns : theirs->since_real_ns;
	uint64_t our_ns = is_near ? ours->since_boot_ns : ours->since_real_ns;

	return their_ns != our_ns ? their_ns < our_ns
				  : peers->config.peers[peer].index < peers->config.index;
}

/* ---- whether we may serve ---------------------------------------------------------------------
 */

/* A namespace to be judged: as in force, or as a new configuration would have it. */
struct candidate {
	struct peer_file *file;
	uint64_t size_bytes;
	uint32_t block_bytes;
};

/* The file is not the one served last, or not the one refused, and nothing has shown yet that it is
 * the right one. */
static bool file_is_unproven(const struct peer_file *file)
{
	return (file->is_another || file->doubters != 0) && !file->has_served && !file->is_forgiven;
}

/* A doubted file does not keep other members from serving theirs. */
static bool is_doubted(const struct peer_file *file)
{
	return file->is_refused || file_is_unproven(file);
}

/* The members have different files: decides which member gives way. */
static enum peer_withhold file_judge(const struct peers *peers, struct peer_file *file,
				     unsigned peer, const struct peer_served *entry)
{
	if (!entry->is_served) {
		bool comes_first = file->is_served || file->is_forgiven ||
				   (entry->is_refused && !is_doubted(file));

		return comes_first ? PEER_WITHHOLD_NONE : PEER_WITHHOLD_FILE;
	}
	if (file->is_served && !is_earlier(peers, peer, entry, &file->entry))
		return PEER_WITHHOLD_NONE;
	file->is_forgiven = false;
	file->is_refused = true;
	return PEER_WITHHOLD_FILE;
}

static enum peer_withhold file_format_judge(const struct peers *peers,
					    const struct candidate *candidate, unsigned peer,
					    const struct peer_served *entry)
{
	const struct peer_file *file = candidate->file;
	bool is_as_served = file->is_served && candidate->size_bytes == file->entry.size_bytes &&
			    candidate->block_bytes == file->entry.block_bytes;
	bool gives_way;

	if (candidate->size_bytes == entry->size_bytes &&
	    candidate->block_bytes == entry->block_bytes)
		return PEER_WITHHOLD_NONE;
	if (entry->is_served)
		gives_way = !is_as_served || is_earlier(peers, peer, entry, &file->entry);
	else
		gives_way = !file->is_served && !file->is_forgiven &&
			    peers->config.peers[peer].index < peers->config.index;
	return gives_way ? PEER_WITHHOLD_FORMAT : PEER_WITHHOLD_NONE;
}

static enum peer_withhold entry_judge(const struct peers *peers, const struct candidate *candidate,
				      unsigned peer, const struct peer_served *entry)
{
	struct peer_file *file = candidate->file;
	enum sameness sameness = file_compare(peers, file, peer, entry);
	uint16_t bit = peer_bit(peers, peer);
	enum peer_withhold withhold;

	if (sameness == IS_OTHER)
		file->differs |= bit;
	else if (sameness == IS_SAME)
		file->differs &= (uint16_t)~bit;
	if (sameness == IS_OTHER || (entry->differs >> peers->config.index & 1) != 0) {
		withhold = file_judge(peers, file, peer, entry);
		file->refusers = (uint16_t)(withhold == PEER_WITHHOLD_FILE ? file->refusers | bit
									   : file->refusers & ~bit);
		return withhold;
	}
	if (sameness == IS_UNSURE && !file->is_served)
		return file->refusers & bit && !file->is_forgiven ? PEER_WITHHOLD_FILE
								  : PEER_WITHHOLD_PENDING;
	/* Both members have the same file. If hosts use the file through the peer, all refusals are
	 * settled; else only the peer's own. */
	if (sameness == IS_SAME)
		file->refusers &= (uint16_t)(entry->is_served ? 0 : ~bit);
	return file_format_judge(peers, candidate, peer, entry);
}

/*
 * The peer's list lacks the namespace (the peer ends, lost its file, or has another document), or
 * its link is down. PEER_WITHHOLD_FILE stays. PEER_WITHHOLD_FORMAT ends when the peer's list lacks
 * the namespace, or when the peer's lock is free, so that no write of the peer can arrive.
 */
static enum peer_withhold absent_judge(const struct peers *peers, const struct peer_file *file,
				       unsigned peer, bool is_told)
{
	const struct peer_config *config = &peers->config.peers[peer];
	bool is_held = true;

	if (file->is_forgiven)
		return PEER_WITHHOLD_NONE;
	if (file->refusers & peer_bit(peers, peer))
		return PEER_WITHHOLD_FILE;
	if (file->withhold != PEER_WITHHOLD_FORMAT || file->withhold_peer != peer || is_told)
		return PEER_WITHHOLD_NONE;
	if (config->addr.path[0] != 0 &&
	    member_lock_is_held(file->fd, config->lock, 1, &is_held) == 0 && !is_held)
		return PEER_WITHHOLD_NONE;
	return PEER_WITHHOLD_FORMAT;
}

/* No link is up in either direction, or no message arrives over it. */
static bool is_unheard(const struct peers *peers, const struct peer_file *file, unsigned peer)
{
	const struct peer *of = &peers->peers[peer];
	uint64_t heard_ns = atomic_load(&of->heard_ns);

	if (atomic_load(&of->links_up) == 0)
		return true;
	if (heard_ns < file->told_ns)
		heard_ns = file->told_ns;
	return now_of(peers) > heard_ns + peers_silence_max_ns(peers);
}

/* A file that was not served yet waits until all peers that can be reached have compared our list
 * with it. */
static bool is_waited_for(const struct peers *peers, const struct peer_file *file, unsigned peer)
{
	const struct peer *of = &peers->peers[peer];
	const struct peer_told *told = peer_told_of(peers, peer);

	if (file->has_served)
		return false;
	if (file->told_from == 0 || atomic_load(&of->reach) == PEER_REACH_UNTRIED)
		return true;
	if (is_unheard(peers, file, peer) || (told && told->generation == PEER_LIST_OVER))
		return false;
	return !told || atomic_load(&of->seen_generation) < file->told_from;
}

/* The peer could vouch for an unproven file, but cannot be asked or ends. If the file is not the
 * one served last, the peer may have the former file of this name open. If it is not the one
 * refused, the peer had the right file. The peer's lock on this file shows that the peer has
 * followed. */
static bool is_unasked(const struct peers *peers, const struct peer_file *file, unsigned peer)
{
	bool is_held = false;

	return file_is_unproven(file) &&
	       (file->is_another || (file->doubters & peer_bit(peers, peer)) != 0) &&
	       (member_lock_is_held(file->fd, peers->config.peers[peer].lock, 1, &is_held) < 0 ||
		!is_held);
}

/* Whether hosts use this same file through the peer. */
static bool is_served_same(const struct peers *peers, const struct peer_file *file, unsigned peer,
			   const struct peer_served *entry)
{
	uint16_t bit = peer_bit(peers, peer);

	return entry && entry->is_served && (file->has_lock & bit) != 0 &&
	       (file->differs & bit) == 0 && (entry->differs >> peers->config.index & 1) == 0;
}

static enum peer_withhold judge(const struct peers *peers, const struct candidate *candidate,
				unsigned *ret_peer)
{
	struct peer_file *file = candidate->file;
	enum peer_withhold withhold = PEER_WITHHOLD_NONE;
	bool is_followed = false;

	*ret_peer = 0;
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		const struct peer_told *told = peer_told_of(peers, i);
		const struct peer_served *entry = told ? peer_told_entry(told, &file->uuid) : NULL;
		enum peer_withhold here;

		here = entry ? entry_judge(peers, candidate, i, entry)
			     : absent_judge(peers, file, i, told != NULL);
		if (!entry && told && here != PEER_WITHHOLD_FILE)
			file->differs &= (uint16_t)~peer_bit(peers, i);
		if (here == PEER_WITHHOLD_NONE && is_waited_for(peers, file, i))
			here = PEER_WITHHOLD_PENDING;
		if (here == PEER_WITHHOLD_NONE && !entry && is_unasked(peers, file, i))
			here = PEER_WITHHOLD_UNASKED;
		is_followed |= is_served_same(peers, file, i, entry);
		/* The heaviest reason counts: one that the operator must see before one that
		 * passes, and another file before another size. */
		if (here > withhold) {
			withhold = here;
			*ret_peer = i;
		}
	}
	/* A member that serves this file has asked the others, or its operator has decided. */
	return withhold == PEER_WITHHOLD_UNASKED && is_followed ? PEER_WITHHOLD_NONE : withhold;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

static void file_text(const struct member_file *file, char text[64])
{
	if (file->is_block_device)
		snprintf(text, 64, "block device %u:%u", (unsigned)(file->device >> 8 & 0xfff),
			 (unsigned)((file->device & 0xff) | (file->device >> 12 & 0xfff00)));
	else
		snprintf(text, 64, "device %llu, inode %llu", (unsigned long long)file->device,
			 (unsigned long long)file->inode);
}

static void differ_text(const struct peers *peers, const struct peer_file *file, unsigned peer,
			const char *end, struct peers_problem *problem)
{
	const struct peer_told *told = peers->told[peer];
	const struct peer_served *entry = told ? peer_told_entry(told, &file->uuid) : NULL;
	char ours[64], theirs[64] = "not known";

	file_text(&file->identity, ours);
	if (entry)
		file_text(&entry->file, theirs);
	snprintf(problem->text, sizeof(problem->text),
		 "member %s and member %s have different files for the same name and UUID (%s: %s; "
		 "%s: %s), or cannot see each other's locks; %s",
		 peers->config.name, peers->config.peers[peer].name, peers->config.name, ours,
		 peers->config.peers[peer].name, theirs, end);
}

static bool is_served_by(const struct peers *peers, const struct peer_file *file, unsigned peer)
{
	const struct peer_told *told = peer_told_of(peers, peer);
	const struct peer_served *entry = told ? peer_told_entry(told, &file->uuid) : NULL;

	return entry && entry->is_served;
}

static void hold_text(const struct peers *peers, const struct candidate *candidate,
		      struct peers_problem *problem)
{
	const struct peer_file *file = candidate->file;
	const char *other = peers->config.peers[file->withhold_peer].name;
	const struct peer_told *told = peers->told[file->withhold_peer];
	const struct peer_served *entry = told ? peer_told_entry(told, &file->uuid) : NULL;

	problem->is_error = file->withhold != PEER_WITHHOLD_PENDING;
	if (file->withhold == PEER_WITHHOLD_PENDING)
		snprintf(
			problem->text, sizeof(problem->text),
			"inaccessible through this member until the comparison with member %s ends",
			other);
	else if (file->withhold == PEER_WITHHOLD_FILE)
		differ_text(peers, file, file->withhold_peer,
			    "the namespace is inaccessible through this member. A file that only "
			    "the other member has open is lost when that member ends: copy its "
			    "data first (weft copy). Then put the right file in place and run "
			    "`weft ctl namespace recheck` on the member with the wrong file",
			    problem);
	else if (file->withhold == PEER_WITHHOLD_UNASKED && !file->is_another)
		snprintf(problem->text, sizeof(problem->text),
			 "the file that this member had under the UUID was refused, because member "
			 "%s had another file. Whether the present file is the refused one is "
			 "unknown: member %s cannot be asked or has no file. The namespace is "
			 "inaccessible through this member until member %s has the present file "
			 "too. If the other member's file is gone for good and the present file is "
			 "the right one, run `weft ctl namespace recheck`",
			 other, other, other);
	else if (file->withhold == PEER_WITHHOLD_UNASKED)
		snprintf(problem->text, sizeof(problem->text),
			 "the file is not the one that was served last under this name, and member "
			 "%s, which may still serve the former file, cannot be asked or has "
			 "neither file. The namespace is inaccessible through this member until "
			 "member %s has the present file too. If the former file is gone for good "
			 "and the present file is the right one, run `weft ctl namespace recheck`",
			 other, other);
	else
		snprintf(problem->text, sizeof(problem->text),
			 "member %s has %llu bytes in blocks of %u under this UUID, member %s has "
			 "%llu in blocks of %u; the namespace is inaccessible through this member "
			 "until both are equal: change the size or block size on the other member "
			 "too",
			 peers->config.name, (unsigned long long)candidate->size_bytes,
			 candidate->block_bytes, other,
			 (unsigned long long)(entry ? entry->size_bytes : 0),
			 entry ? entry->block_bytes : 0);
}

bool peers_problem(struct peers *peers, const struct ns *ns, struct peers_problem *ret_problem)
{
	struct peer_file *file =
		ns->is_clustered && !media_is_lost(ns->media) ? peers_file_of(peers, ns) : NULL;
	const struct candidate candidate = {.file = file,
					    .size_bytes = ns->media->size_bytes,
					    .block_bytes = ns->media->block_bytes};

	*ret_problem = (struct peers_problem){0};
	if (!file)
		return false;
	if (ns->is_withheld) {
		hold_text(peers, &candidate, ret_problem);
		return true;
	}
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		if ((file->differs & peer_bit(peers, i)) == 0)
			continue;
		differ_text(peers, file, i,
			    is_served_by(peers, file, i)
				    ? "both members serve the namespace until the one that started "
				      "later gives way"
				    : "the other member does not serve its file: put the right "
				      "file in place there, then run `weft ctl namespace recheck` "
				      "on that member",
			    ret_problem);
		return true;
	}
	return false;
}

/* Limited, because there may be thousands; `weft ctl health` lists all. */
static void hold_log(struct peers *peers, const char *spec, const char *text)
{
	if (now_of(peers) - peers->logged_ns > NS_PER_S) {
		peers->logged_ns = now_of(peers);
		peers->logged_count = 0;
	}
	if (++peers->logged_count <= LOG_MAX)
		log_error("control", "%s: %s", spec, text);
	else if (peers->logged_count == LOG_MAX + 1)
		log_error("control", "more namespaces are inaccessible: see `weft ctl health`");
}

static void withhold_set(struct peers *peers, const struct candidate *candidate,
			 enum peer_withhold withhold, unsigned peer, const char *spec)
{
	struct peer_file *file = candidate->file;
	bool is_news = withhold != file->withhold;
	struct peers_problem problem;

	file->withhold = withhold;
	file->withhold_peer = peer;
	file->is_refused &= file->refusers != 0;
	if (!is_news || withhold <= PEER_WITHHOLD_PENDING)
		return;
	hold_text(peers, candidate, &problem);
	hold_log(peers, spec, problem.text);
}

/* ---- configurations ---------------------------------------------------------------------------
 */

bool peers_may_serve(struct peers *peers, const struct ns *ns)
{
	struct candidate candidate = {.file = peers_file_of(peers, ns),
				      .size_bytes = ns->media->size_bytes,
				      .block_bytes = ns->media->block_bytes};
	struct peer_file *file = candidate.file;
	enum peer_withhold withhold;
	unsigned peer;

	/* The file cannot be watched, so nothing can be compared; peer_file_add has logged a
	 * warning. */
	if (!file)
		return true;
	file->is_another = media_is_another(ns->media);
	peer_loss_bind(file, ns_backing_live(ns->backing));
	peer_loss_hear(peers, file);
	if (uuid_equal(&peers->forgiven, &file->uuid))
		file->is_forgiven = true;
	if (file->told_from == 0)
		peer_refusal_recall(peers, file, ns->media);
	if (!file->is_in_force) {
		file->entry.size_bytes = candidate.size_bytes;
		file->entry.block_bytes = candidate.block_bytes;
	}
	withhold = judge(peers, &candidate, &peer);
	withhold_set(peers, &candidate, withhold, peer, ns->media->spec);
	if (withhold == PEER_WITHHOLD_NONE && !file->has_served)
		peer_loss_ask(peers, file, ns->media);
	return withhold == PEER_WITHHOLD_NONE;
}

void peers_compare_look_begin(struct peers *peers)
{
	list_for_each(node, &peers->files)
		list_entry(node, struct peer_file, node)->is_in_force = false;
	peers->file_cursor = NULL;
}

void peers_compare_look(struct peers *peers, struct peer_file *file, const struct ns *ns)
{
	struct peer_served *entry = &file->entry;
	bool is_same = file->is_served && entry->size_bytes == ns->media->size_bytes &&
		       entry->block_bytes == ns->media->block_bytes;

	file->is_in_force = true;
	file->is_served = !ns->is_withheld;
	peer_loss_bind(file, ns_backing_live(ns->backing));
	(void)peer_loss_note(peers, file);
	file->has_served |= file->is_served;
	if (file->is_served && file->is_forgiven) {
		file->refusers = 0;
		file->is_refused = file->is_forgiven = false;
	}
	peer_refusal_keep(peers, file);
	entry->uuid = file->uuid;
	entry->file = file->identity;
	entry->size_bytes = ns->media->size_bytes;
	entry->block_bytes = ns->media->block_bytes;
	entry->is_served = file->is_served;
	entry->is_refused = is_doubted(file);
	if (file->is_served && !is_same) {
		entry->since_boot_ns = clock_monotonic_ns();
		entry->since_real_ns = clock_realtime_ns();
	}
}

void peers_compare_look_end(struct peers *peers)
{
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		if (file->is_in_force)
			continue;
		file->is_served = file->has_served = false;
		file->is_forgiven = file->is_refused = false;
		file->refusers = 0; /* the store keeps them */
		file->told_from = 0;
		file->withhold = PEER_WITHHOLD_NONE;
		file->has_asked = false;
		peer_loss_bind(file, NULL);
	}
	peers_kick(peers);
	peers_notice(peers);
}

bool peers_has_refused(struct peers *peers, const struct media *media)
{
	list_for_each(node, &peers->files) {
		const struct peer_file *file = list_entry(node, struct peer_file, node);

		if ((file->withhold == PEER_WITHHOLD_FILE ||
		     file->withhold == PEER_WITHHOLD_UNASKED) &&
		    media_member_is_watched(media, file->fd))
			return true;
	}
	return false;
}

bool peers_recheck(struct peers *peers, const struct uuid *uuid, bool is_dry_run)
{
	list_for_each(node, &peers->files) {
		const struct peer_file *file = list_entry(node, struct peer_file, node);

		if (!file->is_in_force || file->is_served || !uuid_equal(&file->uuid, uuid))
			continue;
		if (!is_dry_run)
			peers->forgiven = *uuid;
		return true;
	}
	return false;
}

void peers_end_recheck(struct peers *peers, bool is_success)
{
	if (uuid_is_nil(&peers->forgiven))
		return;
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		if (!is_success && uuid_equal(&file->uuid, &peers->forgiven))
			file->is_forgiven = false;
	}
	memset(&peers->forgiven, 0, sizeof(peers->forgiven));
}

/* ---- comparing --------------------------------------------------------------------------------
 */

static void start_end(struct peers *peers)
{
	if (!peers->is_starting)
		return;
	peers->is_starting = false;
	peers->hooks.started(peers->hooks.arg, 0, "");
}

void peers_on_rebuilt(struct peers *peers, int res)
{
	peers->is_rebuilding = false;
	if (res == -ESHUTDOWN || peers->is_over)
		return;
	if (res < 0)
		reactor_timer_arm(&peers->compare_timer, now_of(peers) + LOOK_AGAIN_NS);
	start_end(peers);
}

static void rebuild(struct peers *peers)
{
	peers->is_rebuilding = true;
	peers->hooks.rebuild(peers->hooks.arg);
}

/* Result of comparing all shared files. */
struct findings {
	bool wants_change; /* a namespace must be withheld, or released */
	bool has_news;     /* entries of our list have changed: send it */
	bool is_unsettled; /* compare again soon */
	bool is_pending;
};

static void file_compare_all(struct peers *peers, struct peer_file *file, struct findings *findings)
{
	const struct candidate candidate = {.file = file,
					    .size_bytes = file->entry.size_bytes,
					    .block_bytes = file->entry.block_bytes};
	uint16_t differs = file->differs;
	unsigned peer;
	enum peer_withhold withhold = judge(peers, &candidate, &peer);
	char text[UUID_TEXT_BYTES];

	withhold_set(peers, &candidate, withhold, peer, uuid_format(&file->uuid, text));
	peer_refusal_keep(peers, file);
	findings->wants_change |= (withhold == PEER_WITHHOLD_NONE) != file->is_served;
	findings->has_news |=
		differs != file->differs || file->entry.is_refused != is_doubted(file);
	file->entry.is_refused = is_doubted(file);
	findings->is_pending |= withhold == PEER_WITHHOLD_PENDING;
	findings->is_unsettled |= withhold != PEER_WITHHOLD_NONE || file->differs != 0;
	for (unsigned i = 0; i < peers->config.peer_count; i++)
		findings->is_unsettled |= file->unseen_ns[i] != 0;
}

/* False: this list was noted before. */
static bool compared_note(struct peer *peer, const struct peer_told *told)
{
	struct peer_compared *last = &peer->compared[peer->compared_last];

	if (atomic_load(&last->link) == told->link &&
	    atomic_load(&last->generation) == told->generation)
		return false;
	if (atomic_load(&last->link) != told->link) {
		peer->compared_last = (peer->compared_last + 1) % PEER_LINKS;
		last = &peer->compared[peer->compared_last];
	}
	atomic_store(&last->generation, 0);
	atomic_store(&last->link, told->link);
	atomic_store(&last->generation, told->generation);
	return true;
}

/* Every list received is compared by now: makes peers_kick answer new ones with PEER_SEEN. */
static void compared_tell(struct peers *peers)
{
	bool is_new = false;

	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		struct peer *peer = &peers->peers[i];
		const struct peer_told *told = peers->told[i];

		is_new |= told && compared_note(peer, told);
	}
	if (is_new)
		peers_kick(peers);
}

static void compare(struct peers *peers)
{
	struct findings findings = {0};

	if (peers->is_over || !peers->target)
		return;
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		peer_loss_hear(peers, file);
		if (!file->is_in_force)
			continue;
		findings.has_news |= peer_loss_note(peers, file);
		/* This thread did not run: messages of peers may be unread, so count their silence
		 * from now. */
		if (now_of(peers) - peers->compared_ns > 4 * LOOK_AGAIN_NS)
			file->told_ns = now_of(peers);
		file_compare_all(peers, file, &findings);
	}
	compared_tell(peers);
	peers->compared_ns = now_of(peers);
	if (findings.has_news && !peers->is_applying) {
		peers_files_renew(peers);
		peers_kick(peers);
	}
	if (findings.is_unsettled)
		reactor_timer_arm(&peers->compare_timer, now_of(peers) + LOOK_AGAIN_NS);
	/* At the start all shared files are released together, except those that wait longer than a
	 * silent member is waited for. */
	if (peers->is_starting && findings.is_pending &&
	    now_of(peers) - peers->started_ns < 2 * peers_silence_max_ns(peers))
		return;
	if (findings.wants_change && !peers->is_rebuilding)
		rebuild(peers);
	else if (!findings.wants_change)
		start_end(peers);
}

void peers_compare_losses(struct peers *peers)
{
	bool has_news = false;

	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		has_news |= file->is_in_force && peer_loss_note(peers, file);
	}
	if (!has_news || peers->is_applying)
		return;
	peers_files_renew(peers);
	peers_kick(peers);
}

static void compare_due(struct reactor_timer *timer)
{
	compare(container_of(timer, struct peers, compare_timer));
}

static void notice_taken(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, notice_msg);

	atomic_store(&peers->is_notice_out, false);
	compare(peers);
}

void peers_notice(struct peers *peers)
{
	if (!atomic_exchange(&peers->is_notice_out, true))
		reactor_post(peers->control, &peers->notice_msg, notice_taken);
}

void peers_compare_told(struct reactor_msg *msg)
{
	struct peer_told *told = container_of(msg, struct peer_told, msg);
	struct peers *peers = told->peers;
	unsigned at = (unsigned)(told->peer - peers->peers);
	uint16_t bit = peer_bit(peers, at);

	qsort(told->entries, told->count, sizeof(told->entries[0]), peer_served_order);
	free(peers->told[at]);
	peers->told[at] = told;
	peer_loss_told(peers, at);
	/* The peer's lock must be seen again for the files of the new list. */
	list_for_each(node, &peers->files) {
		struct peer_file *file = list_entry(node, struct peer_file, node);

		file->has_lock &= (uint16_t)~bit;
		if (!peer_told_entry(told, &file->uuid))
			file->unseen_ns[at] = 0;
	}
	compare(peers);
}

/* ---- life -------------------------------------------------------------------------------------
 */

void peers_compare_init(struct peers *peers)
{
	reactor_timer_init(peers->control, &peers->compare_timer, compare_due);
}

void peers_compare_start(struct peers *peers)
{
	peers->is_starting = true;
	peers->started_ns = now_of(peers);
	compare(peers);
}

void peers_compare_stop(struct peers *peers)
{
	peers->is_over = true;
	peers->is_starting = false;
	reactor_timer_cancel(&peers->compare_timer);
}

void peers_compare_free(struct peers *peers)
{
	for (unsigned i = 0; i < PEERS_MAX; i++)
		free(peers->told[i]);
}
