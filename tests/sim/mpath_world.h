/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small simulated world for tests of multipath: the real target with one subsystem on several
 * ports, a medium that records when each write lands, and one host with an mpath. Tests change
 * members of struct mworld and call mworld_apply. The seed alone decides what is random. One
 * thread.
 */
#ifndef WEFT_TESTS_MPATH_WORLD_H
#define WEFT_TESTS_MPATH_WORLD_H

#include "sim.h"

#include "host/mpath.h"
#include "target/target.h"

#define MWORLD_PORTS_MAX    4
#define MWORLD_NS           2
#define MWORLD_BLOCK_BYTES  4096
#define MWORLD_BLOCKS       64
#define MWORLD_LANDINGS_MAX 65536
#define MWORLD_BUSY_MAX     1024
#define MWORLD_CNTLIDS      1000 /* of each target */
#define MWORLD_TWIN         2    /* index of the twin, behind the two targets */
#define MWORLD_TARGETS      3

/* ---- the medium -------------------------------------------------------------------------------
 */

struct probe_landing {
	uint64_t at_ns;
	uint64_t block;
	uint64_t value; /* the first eight bytes */
};

struct mworld;

struct probe {
	struct media media;
	struct mworld *world;
	struct list node;        /* of the world's open probes */
	struct probe *master;    /* owner of the blocks; NULL: itself */
	unsigned users;          /* of a master: itself and the probes with its blocks */
	struct reactor *reactor; /* clock of the landings */
	uint64_t block_count;
	uint8_t *blocks;
	uint64_t next_delay_ns; /* of the next write alone */
	uint64_t delay_ns;      /* of every operation */
	bool is_deaf;           /* ignores cancellations */
	/* Random delays on top of delay_ns; 0: none. */
	struct prng prng;
	uint64_t random_delay_us;
	uint32_t spike_one_in;
	uint64_t spike_us;
	unsigned writes_begun;
	unsigned reads_begun;
	unsigned under_way;
	struct media_io *busy[MWORLD_BUSY_MAX]; /* in flight */
	struct probe_landing landings[MWORLD_LANDINGS_MAX];
	unsigned landing_count;
	/* The namespace's life. Writes whose MWORLD_LIFE bits name another life are strays. */
	unsigned life;
	unsigned strays;
	unsigned ns; /* index of its namespace */
	bool is_of_twin;
	/* Of the owner of the bytes: those that survive a loss of power; NULL: no volatile
	 * cache. */
	uint8_t *stable;
	bool is_dark; /* no power, or the process is dead: all operations are cancelled */
	/* Of the owner: the kernel fails to write back unstable bytes, and drops them. */
	bool is_failing;   /* in every flush */
	bool has_error;    /* bytes were dropped: the next flush fails */
	uint64_t loss;     /* as of a file (media/file_lasting.c), of this process */
	uint64_t forgiven; /* likewise */
	uint64_t loss_ns;  /* when loss last changed */
};

struct probe *probe_open(struct mworld *world, uint64_t block_count);
/* From now on `probe` has the bytes of `with`; before its first use. */
void probe_share(struct probe *probe, struct probe *with);
void probe_format(struct probe *probe, uint32_t block_bytes);
/* From now on a write is stable only after a flush, or with FUA. */
void probe_make_volatile(struct probe *probe);
/* The power fails and returns: unstable bytes are lost. */
void probe_power_fail(struct probe *probe);
void probe_power_back(struct probe *probe);
uint64_t probe_stable_value(const struct probe *probe, uint64_t block);
/* The kernel drops unstable bytes: each block reverts to its stable bytes, or becomes stable. */
void probe_lose(struct probe *probe);
/* The probe that owns the bytes. */
struct probe *probe_root(struct probe *probe);
/* Changes in flight land although their process is stopped until until_ns. */
void probe_freeze(struct probe *probe, struct sim *sim, const struct reactor *reactor,
		  uint64_t until_ns);

/* ---- the world --------------------------------------------------------------------------------
 */

/* A second target, if any, serves the last port, with the blocks of the first like another process,
 * or with its own. */
struct mworld_ns {
	struct probe *probe; /* of the first target */
	struct probe *second_probe;
	struct ns_backing *backings[MWORLD_TARGETS];
	bool is_absent;
	bool is_other;      /* on the second target it has another UUID */
	unsigned life;      /* number of namespaces that had its NSID before: part of the UUID */
	uint32_t ana_group; /* from the next apply on; 0: its NSID */
};

/* A wrong machine that took the address of a port: the same NQN, other blocks. Tests set what else
 * it shares with the targets before it starts. */
struct mworld_twin {
	unsigned port;
	bool is_lent;     /* the port is taken from its target */
	bool is_up;       /* the twin serves the port */
	bool is_changing; /* the twin is stopping */
	bool is_other;    /* the twin's namespaces have other UUIDs */
	bool is_serial_other;
	bool has_instance; /* reports its own instance; else none, as another make */
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	unsigned life; /* number of twins so far */
};

struct mworld {
	struct sim *sim;
	struct reactor *control;
	/* By target. [1]: of the second target, or the second one of a wide target. */
	struct reactor *datas[MWORLD_TARGETS];
	struct reactor *reactor; /* of the host */
	struct target *targets[MWORLD_TARGETS];
	struct list probes; /* all open ones, also of before a format or a replacement */
	struct mworld_twin twin;
	unsigned target_count;
	bool is_wide; /* one target with two reactors */
	bool is_shut; /* no host is allowed, from the next apply on */
	/* Both targets use the same range of CNTLIDs. */
	bool has_equal_cntlids;
	bool is_cloned; /* the targets report instances and are not clustered */
	struct net_addr addrs[MWORLD_PORTS_MAX];
	struct host_addr path_addrs[MWORLD_PORTS_MAX]; /* the same, as the host side names them */
	unsigned port_count;
	struct mworld_ns ns[MWORLD_NS];
	/* Further namespaces from the next apply on, with higher NSIDs and the blocks of the last
	 * one. */
	unsigned crowd_count;
	enum ana_state ana[MWORLD_PORTS_MAX][MWORLD_NS]; /* by group - 1 */
	uint32_t quiesce_ms;                             /* CQT; 0: the target's default */
	uint32_t io_queues_max; /* of a controller, from the next apply on; 0: default */
	unsigned applying;
	unsigned stopping;
	uint64_t starts; /* of targets: each start is a new instance */
	struct mworld_restart {
		struct mworld *world;
		struct reactor_timer timer;
		uint64_t down_ns;
		bool is_busy;
		bool is_power; /* the machine has lost its power */
	} restarts[2];
	uint64_t boots; /* of the first target's machine */
	/* Of the first target: the kept loss mark of the first namespace, and how often one was
	 * kept. */
	bool has_marks; /* restarts forget loss marks that are not kept */
	bool has_kept;
	uint8_t kept_mark[8];
	uint64_t losses; /* of all media */
	uint64_t marks;
	/* Acknowledged writes were lost. May be NULL. */
	void (*on_loss)(struct mworld *world);
	void (*on_mark)(struct mworld *world); /* a mark was kept; control reactor; may be NULL */

	struct mpath_config config;
	struct mpath *mpath;
	struct mpath_ns *handle; /* for all commands; NULL: of NSID 1 at the time */
	unsigned ready_count;
	int ready_res;
	struct host_error ready_error;
	unsigned ns_changed_count;
	unsigned path_changed_count;
	unsigned reset_waits; /* messages of fences: they wait for a reset */
	unsigned time_waits;
	char last_what[384];
	void (*on_path)(struct mworld *world, unsigned path, const char *what); /* may be NULL */
	/* After each read or change of bytes; root: the probe that owns them. May be NULL. */
	void (*on_io)(struct mworld *world, const struct probe *root, const struct media_io *io);
	bool is_gone;
};

struct mop {
	struct mpath_io io;
	struct mpath_io second;
	struct iovec iov;
	struct iovec second_iov;
	struct mworld *world;
	bool is_done;
	uint64_t done_ns;
	void (*then)(struct mop *mop);
	uint8_t data[MWORLD_BLOCK_BYTES];
	uint8_t second_data[MWORLD_BLOCK_BYTES];
};

/* With port_count ports at 10.0.0.1, 10.0.0.2, ... and short time-outs in world->config. */
void mworld_create(struct mworld *world, uint64_t seed, unsigned port_count,
		   const struct sim_options *options);
/* Likewise with two targets that share only NQN, serial number, UUIDs and CNTLIDs. */
void mworld_create_twins(struct mworld *world, uint64_t seed, const struct sim_options *options);
/* Likewise, but their CNTLIDs differ: only their instances tell the targets apart. */
void mworld_create_clones(struct mworld *world, uint64_t seed, const struct sim_options *options);
/* As mworld_create, but the last port belongs to another target with the same NQN. is_stranger: its
 * first namespace is another one. Else both serve the same blocks. */
void mworld_create_two(struct mworld *world, uint64_t seed, unsigned port_count, bool is_stranger,
		       const struct sim_options *options);
/* As mworld_create; the target's queues are on two reactors. */
void mworld_create_wide(struct mworld *world, uint64_t seed, unsigned port_count,
			const struct sim_options *options);
/* Closes the mpath, if any, and ends the targets. Returns the number of leaks. */
unsigned mworld_destroy(struct mworld *world);
/* Closes the mpath alone. 1: it did not close in time. */
unsigned mworld_close(struct mworld *world);
void mworld_apply(struct mworld *world);
/* From a callback of the control reactor: the target stops, and starts again after down_ms. */
void mworld_restart(struct mworld *world, unsigned target, uint64_t down_ms);
/* Likewise the only target loses power, and its first namespace its unstable bytes. */
void mworld_lose_power(struct mworld *world, uint64_t down_ms);
/* Likewise its process is killed. */
void mworld_kill(struct mworld *world, uint64_t down_ms);
bool mworld_is_steady(const struct mworld *world);
/* The target's process is stopped for `ms`; changes in flight land. Not from its reactor. */
void mworld_freeze(struct mworld *world, unsigned target, uint64_t ms);
/* The namespace has twice as many blocks from the next apply on; its data stays. */
void mworld_grow(struct mworld *world, unsigned ns);
/* From the next apply on another namespace has the NSID, with blocks and a UUID of its own. */
void mworld_replace(struct mworld *world, unsigned ns);
/* From the next apply on the namespace has blocks of 512 or 4096 bytes; its data stays. */
void mworld_format(struct mworld *world, unsigned ns, uint32_t block_bytes);
/* The UUID that the namespace has on a target in one of its lives. */
void mworld_uuid(const struct mworld *world, unsigned ns, unsigned target, unsigned life,
		 struct uuid *ret_uuid);
/* From callbacks of the control reactor, while steady. world->twin has the port, and what the twin
 * shares with the targets. Lend takes the port from its target, start runs the twin there, stop
 * ends it. The next apply gives the port back. */
void mworld_twin_lend(struct mworld *world);
void mworld_twin_start(struct mworld *world);
void mworld_twin_stop(struct mworld *world);
/* In values of writes: the life of the namespace that they are for. */
#define MWORLD_LIFE(life) (((uint64_t)(life) + 1) << 56)
/* Does not wait: for callbacks of the control reactor. */
void mworld_apply_start(struct mworld *world);
/* Opens the mpath. */
void mworld_open(struct mworld *world);
/* Likewise, and waits for `ready`. */
void mworld_connect(struct mworld *world);
void mworld_run_ms(struct mworld *world, uint64_t ms);
/* Runs until fn is true, for at most limit_ms. Returns whether fn was true. */
bool mworld_until(struct mworld *world, bool (*fn)(struct mworld *world, void *arg), void *arg,
		  uint64_t limit_ms);
bool mworld_until_done(struct mop *mop, uint64_t limit_ms);
bool mworld_until_live(struct mworld *world, unsigned paths, uint64_t limit_ms);
struct path_info mworld_info(struct mworld *world, unsigned path);
uint64_t mworld_now_ms(const struct mworld *world);
struct mpath_ns *mworld_handle(struct mworld *world, uint32_t nsid);

void mop_write(struct mworld *world, struct mop *mop, uint64_t block, uint64_t value);
void mop_read(struct mworld *world, struct mop *mop, uint64_t block);
/* What the user knows: the count of losses, and the number of its latest failed flush. */
void mop_flush(struct mworld *world, struct mop *mop, uint64_t losses_told, uint64_t flush_failed);
/* Identify Controller, on any path. */
void mop_identify(struct mworld *world, struct mop *mop);
/* Compare with `expected`, then Write of `value`, fused. */
void mop_fused(struct mworld *world, struct mop *mop, uint64_t block, uint64_t expected,
	       uint64_t value);
uint64_t mop_value(const struct mop *mop);
uint64_t probe_value(const struct probe *probe, uint64_t block);
/* How often this value landed; *ret_last_ns: when it last did. */
unsigned probe_landed(const struct probe *probe, uint64_t value, uint64_t *ret_last_ns);

#endif
