/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated disk that outlives processes: several may have it open at a time, each through a
 * struct media of its own. What a process had submitted when it died or was frozen is the disk's:
 * it lands or not, later, as a kernel would finish it. Delays, errors and losses are decided by a
 * seed. Any simulated reactor; one thread.
 *
 * A block is never torn: of a write of several blocks any of them may land alone when the power
 * goes, each whole. Without a volatile cache a write is stable when it is done.
 */
#ifndef WEFT_TESTS_SIM_DISK_H
#define WEFT_TESTS_SIM_DISK_H

#include "sim.h"

#include "media/media.h"

struct sim_disk;

struct sim_disk_options {
	const char *name; /* what specs call it: "file:/disk/NAME"; copied */
	uint64_t seed;
	uint64_t block_count;
	uint64_t block_count_max; /* as far as it can grow; 0: block_count */
	uint32_t block_bytes;
	uint32_t delay_max_us;
	uint32_t spike_one_in; /* operations that take up to spike_max_us longer; 0: never */
	uint32_t spike_max_us;
	uint32_t error_one_in;     /* operations that fail with -EIO; of a write any blocks land */
	uint32_t misdirect_one_in; /* reads that get the blocks of another place */
	uint32_t cancel_deaf_one_in; /* cancellations that are not heard; 0: never */
	bool has_volatile_cache;
	bool can_discard;
	bool reads_zero_after_discard;
	bool takes_multiples; /* the namespace's blocks may be several of the disk's */
	bool is_recorded; /* the target is told its size and type, to be kept (media_get_record) */
};

/* `bytes` is the whole block as it is from now on. is_late: the process that wrote it was dead or
 * frozen by then. writer NULL: of no process, or the power went and an older block is back. */
typedef void (*sim_disk_watch_fn)(void *arg, struct sim_disk *disk, uint64_t block,
				  const uint8_t *bytes, const struct sim_process *writer,
				  bool is_late);

/* Names are unique. */
struct sim_disk *sim_disk_create(struct sim *sim, const struct sim_disk_options *options);
/* Every medium is closed, or its process dead. Before sim_destroy. */
void sim_disk_destroy(struct sim_disk *disk);
uint64_t sim_disk_block_count(const struct sim_disk *disk);
/* Sees every block that lands, in any way. */
void sim_disk_watch(struct sim_disk *disk, sim_disk_watch_fn fn, void *arg);
const uint8_t *sim_disk_block(const struct sim_disk *disk, uint64_t block);

/*
 * For the process that is current. block_count 0: all of the disk; else it grows to that if it
 * must. block_bytes is the namespace's: another than the disk's is refused (-EINVAL) but for
 * takes_multiples.
 * member -1: nobody else may have it open (-EBUSY, as of a locked file).
 */
int sim_disk_open(struct sim_disk *disk, const char *spec, uint64_t block_count, int member,
		  struct media **ret_media);
/* Whether that member has it open, or anything of it is still under way, its process dead or not.
 */
bool sim_disk_members_can_write(const struct sim_disk *disk, unsigned first, unsigned count);
/* The right to end another member, of the current process: once per disk, lost with the process. */
int sim_disk_fence_take(struct sim_disk *disk);
void sim_disk_fence_drop(struct sim_disk *disk);

/* The process, alive, of a change that is under way and lands after that time; NULL: none. */
const struct sim_process *sim_disk_slow_writer(const struct sim_disk *disk, uint64_t after_ns);

/* ---- what happens to it ---------------------------------------------------------------------- */

/* What is not stable is kept or lost, block by block; what is under way fails, having landed in
 * part or not. */
void sim_disk_power_loss(struct sim_disk *disk);
/* Writes to blocks that were never written, or discarded, fail with -ENOSPC. */
void sim_disk_set_full(struct sim_disk *disk, bool is_full);
/* Blocks from there on fail, as of a file that somebody cut (-EIO); block_count_max: mended, and
 * what was there is there again. */
void sim_disk_cut(struct sim_disk *disk, uint64_t block_count);
/* From the next open on, as of a file that was deleted (0 blocks left) or cut while nobody served
 * it; UINT64_MAX: restored, as it was. A target that makes or grows it all the same gets zeroes,
 * and what was there is gone: the model of the world is not told. */
void sim_disk_lose(struct sim_disk *disk, uint64_t blocks_left);
/* The process of that name does not find it, as of a file system that is not mounted there. */
void sim_disk_hide(struct sim_disk *disk, const char *process_name);
/* The process of that name finds another disk under this name, as in a mount namespace of its own;
 * twin NULL: no more. What is open stays open. */
void sim_disk_set_twin(struct sim_disk *disk, struct sim_disk *twin, const char *process_name);
/* All that was there before it was lost, cut, hidden or made anew is there again, as of a file that
 * is restored. Nobody may serve what was made anew. */
void sim_disk_give_back(struct sim_disk *disk);
/* It was made anew, and nothing of what was there before comes back. */
void sim_disk_forget(struct sim_disk *disk);
/* Neither lost, cut nor hidden, nor made anew without a sim_disk_forget. */
bool sim_disk_is_whole(const struct sim_disk *disk);
/* Whoever looked at it last was told that it was being made anew, and is to be recreated again. */
bool sim_disk_asks_for_recreate(const struct sim_disk *disk);
/* No more errors, spikes and misdirected reads; neither full nor cut. */
void sim_disk_heal(struct sim_disk *disk);
/* How many reads were misdirected so far. A read that began before one and ended after it may have
 * got anything; all others are judged. */
uint64_t sim_disk_misdirected(const struct sim_disk *disk);

/* ---- by name: what media_open and its kin find when a program is linked with sim_media_open.c --
 */

/* "file:/disk/NAME[,size=..][,block=..]" in media_open, media_open_shared and media_reopen leads to
 * the disk of that name; everything else goes to the true functions. */
struct sim_disk *sim_disk_find(const char *name);

#endif
