/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scripted life of a target and a host in the simulator, for programs that make something in it
 * fail once. One thread.
 *
 * After the failure the script continues as a user would: a failed set-up is tried again, a lost
 * controller is connected again. A model of every block defines what a read may return. Violations
 * of what must always hold are counted here as complaints. What a certain failure must look like is
 * checked by each program, from the figures of a scene.
 */
#ifndef WEFT_TESTS_SCENE_H
#define WEFT_TESTS_SCENE_H

#include "sim.h"

#include "host/host.h"
#include "target/target.h"

#define SCENE_BLOCK_BYTES 4096u
#define SCENE_BLOCKS      32u
#define SCENE_NS_COUNT    3u
#define SCENE_CMDS        8u
#define SCENE_CMD_BYTES   65536u

/* What a write that ended with Write Fault has changed. */
enum scene_write_fault {
	SCENE_FAULT_UNKNOWN,
	SCENE_FAULT_NOTHING_DONE,
	SCENE_FAULT_HALF_DONE, /* the first half of its blocks, rounded down */
};

struct scene_options {
	uint64_t seed;
	struct sim_options sim;
	bool has_digests;
	const char *file;  /* medium of the second namespace; NULL: memory */
	const char *rules; /* of the second namespace's fault medium, or NULL */
	enum scene_write_fault write_fault;
	bool has_break;
	struct sim_net_break net_break;
};

struct scene_cmd {
	struct host_cmd cmd;
	struct scene *scene;
	unsigned done_count;
	uint32_t nsid;
	uint32_t first_block;
	uint32_t block_count;
	uint8_t stamp; /* value of every byte of a write */
	bool changes_data;
	uint8_t data[SCENE_CMD_BYTES];
};

/* All bytes of a block are equal; one bit per value that they may have. */
struct scene_block {
	uint64_t allowed[4];
};

/* What the script counted. */
struct scene_figures {
	bool is_broken;          /* the network break has happened */
	unsigned setup_failures; /* of creating, applying, opening media */
	unsigned connect_failures;
	unsigned losses;
	unsigned cmd_failures; /* except Host Pathing Error */
	unsigned odd_failures; /* of cmd_failures: all but Internal Error without DNR */
	nvme_status last_failure;
	uint8_t last_failure_opcode;
	unsigned wrong_reads;    /* successful reads of bytes that the model does not allow */
	unsigned compare_misses; /* Compares of equal data that failed */
	uint64_t keep_alive_expiries;
	uint64_t farewell_ns; /* how long the last host_disconnect of a live controller took */
	unsigned events;
	unsigned aborted; /* commands ended by an Abort */
	uint64_t media_errors;
	uint64_t logged_faults;    /* entries of media statuses except Compare Failure */
	nvme_status logged_status; /* of the last of logged_faults */
	uint32_t logged_nsid;      /* of the last of logged_faults */
};

struct scene {
	struct scene_options options;
	struct sim *sim;
	struct reactor *control;
	struct reactor *data[2];
	struct reactor *client;
	struct target *target;
	struct net_addr addr;
	struct ns_backing *backings[SCENE_NS_COUNT];
	bool is_applying;
	int apply_result;
	bool is_shut_down;
	bool is_listing;
	struct subsystem_live *live;
	/* The state store: one reservation as it was kept. */
	size_t kept_bytes;
	uint8_t kept[256];

	struct host_ctrl *ctrl;
	unsigned connected_count;
	int connect_result;
	unsigned io_queues;
	bool is_lost;
	bool is_gone;

	struct scene_cmd *cmds; /* SCENE_CMDS */
	unsigned submitted_count;
	unsigned done_count;
	unsigned pathing_errors;
	struct scene_block blocks[SCENE_NS_COUNT][SCENE_BLOCKS];

	const char *step;
	unsigned complaints;
	struct scene_figures figures;
};

/* Plays the whole script. Returns the number of complaints, each printed after `label`. */
unsigned scene_play(const struct scene_options *options, const char *label,
		    struct scene_figures *ret_figures);

/* ---- scene.c, for scene_script.c ------------------------------------------------------------ */

void scene_complain(struct scene *scene, const char *text, int line);
#define SCENE_EXPECT(scene, cond)                                                                  \
	do {                                                                                       \
		if (!(cond))                                                                       \
			scene_complain(scene, #cond, __LINE__);                                    \
	} while (0)

int scene_target_create(struct scene *scene);
/* Applies a configuration with the first ns_count namespaces. 0 or -errno. */
int scene_apply(struct scene *scene, unsigned ns_count);
/* Connects to the subsystem (io_queues > 0) or to discovery. 0 or -errno. */
int scene_connect(struct scene *scene, unsigned io_queues);
void scene_disconnect(struct scene *scene);
/* Disconnects a lost controller. */
void scene_forget_lost(struct scene *scene);
void scene_drain(struct scene *scene);
void scene_shut_down(struct scene *scene);
void scene_script(struct scene *scene);
/* Runs until the commands submitted so far are done. */
void scene_wait_cmds(struct scene *scene);
/* Clears and returns a command. scene_submit sends it to an I/O queue or to admin (-1). */
struct scene_cmd *scene_cmd(struct scene *scene, unsigned index, uint32_t nsid);
void scene_submit(struct scene *scene, struct scene_cmd *cmd, int queue);
/* Connects with two I/O queues if there is no controller. False on failure. */
bool scene_have_ctrl(struct scene *scene);
/* scene_special.c, for scene_script.c */
void scene_step_reserve(struct scene *scene);
void scene_step_bad_blocks(struct scene *scene);
void scene_step_admin(struct scene *scene);
/* The block's value; -1 when several values are possible. */
int scene_block_value(const struct scene *scene, uint32_t nsid, uint32_t block);

#endif
