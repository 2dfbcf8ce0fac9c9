/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of the multipath world's second namespace, whose identity and format change: the
 * namespace is deleted and another one gets its NSID, its block size changes, and a wrong machine
 * gets the address of a port. Tenants read, write, zero and deallocate their own bytes through
 * handles of one or two mpaths, each on its own reactor. One thread; troubles strike from the
 * control reactor, with random numbers of their own.
 *
 * Judged at the medium: bytes change only while a command that names them is in flight, in the
 * format and for the namespace that the command was made for. Judged at the host: a read returns
 * what was written through handles of the same namespace, and the handle of a replaced namespace
 * stays stale.
 */
#ifndef WEFT_TESTS_SIM_TENANT_H
#define WEFT_TESTS_SIM_TENANT_H

#include "mpath_world.h"
#include "sim_model.h"

#define TENANTS_MAX       8
#define TENANT_LIVES_MAX  64
#define TENANT_SECTOR     512 /* bytes; unit of the models */
#define TENANT_SECTORS    (MWORLD_BLOCKS * MWORLD_BLOCK_BYTES / TENANT_SECTOR / TENANTS_MAX)
#define TENANT_DATA_BYTES (2 * MWORLD_BLOCK_BYTES)
#define TENANT_HANDLES    8 /* stale handles kept for a check at the end */

struct mrun;

enum tenant_kind {
	TENANT_READ,
	TENANT_WRITE,
	TENANT_ZEROES,
	TENANT_DEALLOCATE,
};

struct tenant_handle {
	struct mpath_ns *ns;
	unsigned life;
};

struct tenant {
	struct mpath_io io; /* first member: the tenant is found from it */
	struct iovec iov;
	struct mrun *run;
	unsigned index;
	unsigned mpath; /* 0: the world's, 1: the second */
	struct reactor_timer timer;
	struct tenant_handle handle; /* of the command in flight, or of the next one */
	struct tenant_handle old[TENANT_HANDLES];
	unsigned old_count;
	enum tenant_kind kind;
	uint32_t block_bytes; /* block size that the command is made for */
	uint64_t sector;
	uint64_t sector_count;
	uint64_t value;
	uint64_t start;
	bool is_busy;
	bool has_changed; /* a medium was written for the command */
	bool is_sweeping;
	bool is_looking_back; /* checks an old handle */
	uint64_t swept;       /* sectors read after the troubles */
	unsigned olds_seen;
	uint8_t data[TENANT_DATA_BYTES];
};

struct tenants {
	bool is_on;
	struct prng prng;
	uint32_t replace_one_in; /* chance per trouble of the world, for each */
	uint32_t format_one_in;
	uint32_t twin_one_in;
	bool has_second; /* a second mpath on its own reactor */
	bool is_clone;   /* twins differ only in data: CNTLIDs or instances tell them apart */
	bool is_wide;    /* the target has two reactors */
	unsigned count;
	struct tenant tenants[TENANTS_MAX];
	struct model *models[TENANT_LIVES_MAX];
	uint64_t next_value;
	/* The second mpath. */
	struct reactor *reactor;
	struct mpath *mpath;
	bool is_gone;
	struct join *join;
	uint64_t commands, stale, replaced, formatted, twins, refusals;
};

/* Features of the world, numbered from FEATURE_TENANT on. */
enum tenant_feature {
	TENANT_REPLACEMENTS,
	TENANT_FORMATS,
	TENANT_TWINS,
	TENANT_SECOND_MPATH,
	TENANT_TWO_REACTORS,
	TENANT_FEATURES,
};
#define TENANT_FEATURE_NAMES "replacements", "formats", "twins", "second_mpath", "two_reactors"

/* Chooses what the seed has of these. */
void tenants_choose(struct tenants *tenants, uint64_t seed, bool is_two);
/* Removes what the scenario switches off; feature() is called for each. */
void tenants_shrink(struct tenants *tenants,
		    bool (*feature)(void *arg, unsigned feature, bool is_chosen), void *arg);
/* Call before the world connects. */
void tenants_prepare(struct mrun *run);
/* Call after the world has connected. */
void tenants_start(struct mrun *run);
/* Call at each trouble. */
void tenants_strike(struct mrun *run);
/* Call after the troubles, outside of every reactor, before the last apply. */
void tenants_heal(struct mrun *run);
/* sim_tenant.c: the tenants' commands. */
void tenants_begin(struct mrun *run);
bool tenants_are_well(struct mrun *run);
/* Closes the second mpath. False: the close does not end. */
bool tenants_close(struct mrun *run);
void tenants_free(struct mrun *run);

#endif
