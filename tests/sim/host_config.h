/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multipath host of mpath_world.c and node_world.c, with short time-outs. Tests change single
 * fields.
 */
#ifndef WEFT_TESTS_SIM_HOST_CONFIG_H
#define WEFT_TESTS_SIM_HOST_CONFIG_H

#include "base/text.h"
#include "base/uuid.h"
#include "host/mpath.h"

static inline struct mpath_config host_config_make(uint64_t seed, const char *subsystem_nqn,
						   const char *host_nqn)
{
	struct mpath_config config = {
		.policy = PATH_POLICY_ROUND_ROBIN,
		.io_queues = 2,
		.io_queue_size = 16,
		.seed = seed,
		.numa_node = -1,
		.timeouts =
			{
				.connect_ms = 1000,
				.keep_alive_ms = 1000,
				.command_ms = 3000,
				.silence_ms = 300,
				.unacked_ms = 300,
				.reconnect_min_ms = 10,
				.reconnect_max_ms = 200,
				.jitter_percent = 25,
				.stable_ms = 500,
				.ctrl_loss_ms = 5000,
				.quiesce_ms = 400,
				.reset_ms = 1000,
			},
	};

	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), subsystem_nqn);
	text_copy(config.host_nqn, sizeof(config.host_nqn), host_nqn);
	uuid_from_name(config.host_nqn, &config.host_id);
	return config;
}

#endif
