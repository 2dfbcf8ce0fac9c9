/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot that the target reports to hosts (wire/identify.h). The boot changes when acknowledged
 * writes that were not flushed may be lost. Hosts compare the boot after they lost the target
 * (host/loss.h).
 *
 * Such writes are in the page cache of this machine, or in the caches of its disks. A kill of the
 * process loses none of them. A restart of the machine loses them, unless the target ended in order
 * and flushed its media before. So the boot is made of the kernel's boot ID, and the state store
 * keeps the boot over an orderly restart of the machine. Hosts see a hash of the boot ID.
 *
 * Control thread; blocks.
 */
#ifndef WEFT_DAEMON_BOOT_H
#define WEFT_DAEMON_BOOT_H

#include "base/uuid.h"
#include "store/store.h"
#include "wire/identify.h"

/* The record of a start. The state store has the record of the latest start. */
struct boot_record {
	uint8_t kernel[IDENTIFY_BOOT_BYTES]; /* hash of the kernel's boot ID */
	uint8_t boot[IDENTIFY_BOOT_BYTES];   /* reported to hosts */
	bool is_flushed;  /* this start ended in order: no write was left unflushed */
	bool was_flushed; /* the previous start ended in order; not kept */
};

/* Decides the record of a start under this kernel. kept: the record of the previous start, or NULL.
 * is_clustered: other processes may write to the same files, also after the end of this one, and
 * through the same page cache when they run under the same kernel. So members of a cluster always
 * report the kernel's boot. */
void boot_decide(const struct boot_record *kept, const struct uuid *kernel, bool is_clustered,
		 struct boot_record *ret_record);
/* Decides the record and keeps it, before any host connects. *ret_record is all zero when the
 * kernel's boot ID cannot be read: the target then reports no boot. */
void boot_begin(struct store *store, bool is_clustered, struct boot_record *ret_record);
/* Returns the source of the loss marks (target/loss.h) that this state keeps for namespaces.
 * member: this process's name in the cluster; NULL: not a member. The name matters because a state
 * folder may be a copy of another member's: two members under one source would deny each other's
 * marks. */
uint64_t boot_loss_source(const struct uuid *state, const char *member);
/* Keeps that this process ended in order. Called at the end, when nothing writes any more and every
 * medium was flushed or has a new loss mark. */
void boot_end_flushed(struct store *store, struct boot_record *record);

#endif
