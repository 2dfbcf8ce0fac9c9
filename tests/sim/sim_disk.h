/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated disk that outlives processes. Several processes may have it open, each through its
 * own struct media. Operations of a process that died or was frozen belong to the disk: they land
 * later, or never, as with a kernel. The seed decides delays, errors and losses. Any simulated
 * reactor; one thread.
 *
 * A block is never torn. When the power goes, any blocks of a write may have landed, each whole.
 * Without a volatile cache a write is stable when it is done.
 */
#ifndef WEFT_TESTS_SIM_DISK_H
#define WEFT_TESTS_SIM_DISK_H

#include "sim.h"

#include "media/media.h"

struct sim_disk;

struct sim_disk_options {
	const char *name; /* as in specs: "file:/disk/NAME"; copied */
	uint64_t seed;
	uint64_t block_count;
	uint64_t block_count_max; /* largest size; 0: block_count */
	uint32_t block_bytes;
	uint32_t delay_max_us;
	uint32_t spike_one_in; /* operations that take up to spike_max_us longer; 0: never */
	uint32_t spike_max_us;
	uint32_t error_one_in;       /* fail with -EIO; of a failed write any blocks may land */
	uint32_t misdirect_one_in;   /* reads that return blocks of another place */
	uint32_t cancel_deaf_one_in; /* cancellations that are ignored; 0: never */
	bool has_volatile_cache;
	bool can_discard;
	bool reads_zero_after_discard;
	bool takes_multiples; /* a namespace's block may be several disk blocks */
	bool is_recorded;     /* size and type are reported, to be kept (media_get_record) */
};

/* `bytes` is the whole block after the write. is_late: the writing process was dead or frozen then.
 * writer NULL: no process, or a power loss brought back an older block. */
typedef void (*sim_disk_watch_fn)(void *arg, struct sim_disk *disk, uint64_t block,
				  const uint8_t *bytes, const struct sim_process *writer,
				  bool is_late);

/* Names must be unique. */
struct sim_disk *sim_disk_create(struct sim *sim, const struct sim_disk_options *options);
/* Every medium must be closed or its process dead. Call before sim_destroy. */
void sim_disk_destroy(struct sim_disk *disk);
uint64_t sim_disk_block_count(const struct sim_disk *disk);
/* fn is called for every block that lands, for whatever reason. */
void sim_disk_watch(struct sim_disk *disk, sim_disk_watch_fn fn, void *arg);
const uint8_t *sim_disk_block(const struct sim_disk *disk, uint64_t block);

/*
 * Opens the disk for the current process. block_count 0: the whole disk; otherwise the disk grows
 * to that size if it is smaller. block_bytes in the spec must equal the disk's (-EINVAL) unless
 * takes_multiples is set. member -1: exclusive, -EBUSY while anyone else has it open, as with a
 * locked file.
 */
int sim_disk_open(struct sim_disk *disk, const char *spec, uint64_t block_count, int member,
		  struct media **ret_media);
/* True: one of these members has the disk open or operations in flight, its process dead or not. */
bool sim_disk_members_can_write(const struct sim_disk *disk, unsigned first, unsigned count);
/* The right to fence other members, for the current process: one holder per disk, lost when the
 * process dies. */
int sim_disk_fence_take(struct sim_disk *disk);
void sim_disk_fence_drop(struct sim_disk *disk);

/* The live process of a change in flight that lands after after_ns; NULL: none. */
const struct sim_process *sim_disk_slow_writer(const struct sim_disk *disk, uint64_t after_ns);

/* ---- what happens to it ---------------------------------------------------------------------- */

/* Each block that is not stable is kept or lost. Operations in flight fail; any of their blocks may
 * have landed. */
void sim_disk_power_loss(struct sim_disk *disk);
/* Writes to blocks that were never written, or were discarded, fail with -ENOSPC. */
void sim_disk_set_full(struct sim_disk *disk, bool is_full);
/* Blocks from block_count on fail with -EIO, as of a truncated file; block_count_max: repaired, the
 * former data is back. */
void sim_disk_cut(struct sim_disk *disk, uint64_t block_count);
/*
 * From the next open on the disk looks like a file that was deleted (0 blocks left) or truncated
 * while no process had it open; UINT64_MAX: restored unchanged. A target that recreates or grows
 * the disk nevertheless gets zeroes and the data is gone; the world's model does not learn of this.
 */
void sim_disk_lose(struct sim_disk *disk, uint64_t blocks_left);
/* The process of this name gets "not found", as when the file system is not mounted there. */
void sim_disk_hide(struct sim_disk *disk, const char *process_name);
/* The process of this name finds `twin` under this disk's name, as in its own mount namespace; twin
 * NULL: no longer. Open handles are not affected. */
void sim_disk_set_twin(struct sim_disk *disk, struct sim_disk *twin, const char *process_name);
/* Brings back all that the disk had before it was lost, cut, hidden or recreated, as of a file that
 * is restored. No process may have the recreated disk open. */
void sim_disk_give_back(struct sim_disk *disk);
/* Accepts a recreated disk: its former data will not come back. */
void sim_disk_forget(struct sim_disk *disk);
/* True: neither lost, cut nor hidden, nor recreated without a sim_disk_forget. */
bool sim_disk_is_whole(const struct sim_disk *disk);
/* True: the last open found an unfinished recreate, so the disk must be recreated again. */
bool sim_disk_asks_for_recreate(const struct sim_disk *disk);
/* Ends errors, spikes, misdirected reads, full and cut. */
void sim_disk_heal(struct sim_disk *disk);
/* Number of misdirected reads so far. A read that began before one and ended after it may have got
 * anything; all other reads are judged. */
uint64_t sim_disk_misdirected(const struct sim_disk *disk);

/* ---- by name: what media_open and its kin find when a program is linked with sim_media_open.c --
 */

/* "file:/disk/NAME[,size=..][,block=..]" in media_open, media_open_shared and media_reopen opens
 * the disk of that name; every other spec goes to the real functions. */
struct sim_disk *sim_disk_find(const char *name);

#endif
