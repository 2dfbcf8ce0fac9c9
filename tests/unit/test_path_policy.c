/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path policies: each on made-up samples, and over a model of two paths in model time.
 *
 * The model: a closed loop of MODEL_DEPTH commands, as an application with a fixed queue depth. A
 * path is a link that carries one command per LINK_NS, one after another, then a delay of DELAY_NS
 * with a jitter of a tenth, like a slow network (or netem): throughput drops to a tenth when the
 * delay grows tenfold. A stalled path keeps its commands until the stall ends.
 */
#include "base/check.h"
#include "host/path_policy.h"
#include "tap.h"

#include <errno.h>

#define MODEL_DEPTH 32
#define LINK_NS     2000ull
#define DELAY_NS    100000ull
#define SECOND_NS   1000000000ull
#define SLOWER      10

struct model_path {
	uint64_t delay_ns;
	uint64_t stalled_until_ns;
	uint64_t link_free_ns;
	uint64_t picked_ns;
	uint64_t commands; /* answered */
	uint64_t taken;    /* sent */
	struct path_latency latency;
	uint32_t in_flight;
};

struct model_cmd {
	unsigned path;
	uint64_t sent_ns;
	uint64_t done_ns;
};

struct model {
	uint64_t now_ns;
	struct path_policy_state policy;
	struct prng prng;
	struct model_path paths[2];
	struct model_cmd cmds[MODEL_DEPTH];
};

static void model_send(struct model *model, struct model_cmd *cmd)
{
	struct path_sample samples[2];
	struct model_path *path;

	for (unsigned i = 0; i < 2; i++) {
		samples[i] = (struct path_sample){
			.in_flight = model->paths[i].in_flight,
			.picked_ns = model->paths[i].picked_ns,
			.latency = model->paths[i].latency,
		};
	}
	for (unsigned i = 0; i < MODEL_DEPTH; i++) {
		const struct model_cmd *other = &model->cmds[i];
		uint64_t age_ns = model->now_ns - other->sent_ns;

		if (other->done_ns > model->now_ns && other != cmd &&
		    age_ns > samples[other->path].oldest_ns)
			samples[other->path].oldest_ns = age_ns;
	}
	cmd->path = path_policy_pick(&model->policy, samples, 2, model->now_ns);
	CHECK(cmd->path < 2);
	path = &model->paths[cmd->path];
	path->picked_ns = model->now_ns;
	path->in_flight++;
	path->taken++;
	if (path->link_free_ns < model->now_ns)
		path->link_free_ns = model->now_ns;
	path->link_free_ns += LINK_NS;
	cmd->sent_ns = model->now_ns;
	cmd->done_ns = path->link_free_ns + path->delay_ns * 95 / 100 +
		       prng_below(&model->prng, path->delay_ns / 10);
	if (cmd->done_ns < path->stalled_until_ns)
		cmd->done_ns = path->stalled_until_ns;
}

static void model_start(struct model *model, enum path_policy policy)
{
	*model = (struct model){.now_ns = SECOND_NS};
	path_policy_init(&model->policy, policy, 7);
	prng_seed(&model->prng, 11);
	model->paths[0].delay_ns = DELAY_NS;
	model->paths[1].delay_ns = DELAY_NS;
	for (unsigned i = 0; i < MODEL_DEPTH; i++)
		model_send(model, &model->cmds[i]);
}

/* Runs for for_ns. Returns the number of answered commands. */
static uint64_t model_run(struct model *model, uint64_t for_ns)
{
	uint64_t end_ns = model->now_ns + for_ns;
	uint64_t answered = 0;

	for (;;) {
		struct model_cmd *next = &model->cmds[0];
		struct model_path *path;

		for (unsigned i = 1; i < MODEL_DEPTH; i++)
			if (model->cmds[i].done_ns < next->done_ns)
				next = &model->cmds[i];
		if (next->done_ns > end_ns)
			break;
		model->now_ns = next->done_ns;
		path = &model->paths[next->path];
		path->in_flight--;
		path->commands++;
		path_latency_add(&path->latency, model->now_ns - next->sent_ns, model->now_ns);
		answered++;
		model_send(model, next);
	}
	model->now_ns = end_ns;
	return answered;
}

/* Commands in flight end later too: their answers are on the stalled link. */
static void model_stall(struct model *model, unsigned path, uint64_t until_ns)
{
	model->paths[path].stalled_until_ns = until_ns;
	for (unsigned i = 0; i < MODEL_DEPTH; i++)
		if (model->cmds[i].path == path && model->cmds[i].done_ns < until_ns)
			model->cmds[i].done_ns = until_ns;
}

static uint64_t share_percent(const struct model *model, uint64_t before, uint64_t answered)
{
	return (model->paths[1].commands - before) * 100 / answered;
}

static void latency_beats_queue_depth_when_one_path_slows(void)
{
	static const enum path_policy policies[] = {PATH_POLICY_QUEUE_DEPTH, PATH_POLICY_LATENCY};
	uint64_t answered[2];
	struct model model;

	for (unsigned i = 0; i < 2; i++) {
		model_start(&model, policies[i]);
		model_run(&model, SECOND_NS / 2);
		model.paths[1].delay_ns = DELAY_NS * SLOWER;
		model_run(&model, SECOND_NS / 2);
		answered[i] = model_run(&model, SECOND_NS);
	}
	printf("# one of two paths 10 times slower: queue-depth %llu/s, latency %llu/s\n",
	       (unsigned long long)answered[0], (unsigned long long)answered[1]);
	EXPECT(answered[1] * 10 >= answered[0] * 13);
}

static void latency_reacts_within_a_second_and_returns(void)
{
	uint64_t steady, window, before, answered;
	struct model model;
	unsigned tenths;

	model_start(&model, PATH_POLICY_LATENCY);
	model_run(&model, SECOND_NS / 2);
	before = model.paths[1].commands;
	answered = model_run(&model, SECOND_NS / 2);
	EXPECT(share_percent(&model, before, answered) >= 40);
	EXPECT(share_percent(&model, before, answered) <= 60);

	model.paths[1].delay_ns = DELAY_NS * SLOWER;
	before = model.paths[1].commands;
	for (tenths = 1; tenths <= 10; tenths++) {
		before = model.paths[1].commands;
		answered = model_run(&model, SECOND_NS / 10);
		if (share_percent(&model, before, answered) <= 5)
			break;
	}
	printf("# left the slow path within %u tenths of a second\n", tenths);
	EXPECT(tenths <= 10);
	steady = model_run(&model, SECOND_NS / 10);

	model.paths[1].delay_ns = DELAY_NS;
	for (tenths = 1; tenths <= 10; tenths++) {
		before = model.paths[1].commands;
		window = model_run(&model, SECOND_NS / 10);
		if (share_percent(&model, before, window) >= 40)
			break;
	}
	printf("# came back within %u tenths of a second\n", tenths);
	EXPECT(tenths <= 10);
	EXPECT(model_run(&model, SECOND_NS / 10) >= steady);
}

static void latency_leaves_a_stalled_path_before_it_answers(void)
{
	uint64_t answered, taken;
	struct model model;

	model_start(&model, PATH_POLICY_LATENCY);
	model_run(&model, SECOND_NS / 2);
	answered = model_run(&model, SECOND_NS / 10);
	model_stall(&model, 1, model.now_ns + SECOND_NS / 5);
	taken = model.paths[1].taken;
	/* Half of the commands are stuck on the stalled path; the others continue as before. */
	EXPECT(model_run(&model, SECOND_NS / 10) * 10 >= answered * 4);
	EXPECT(model.paths[1].taken - taken <= 2);
}

static void latency_spends_few_commands_on_probes(void)
{
	struct path_sample samples[2] = {{.latency = {.mean_ns = 100000}},
					 {.latency = {.mean_ns = 1000000}}};
	struct path_policy_state state;
	unsigned probes = 0;

	/* One command at a time, 1 ms apart. Without probes the second path would be idle. */
	path_policy_init(&state, PATH_POLICY_LATENCY, 3);
	for (unsigned i = 1; i <= 20000; i++) {
		unsigned picked = path_policy_pick(&state, samples, 2, i * 1000000ull);

		samples[picked].picked_ns = i * 1000000ull;
		probes += picked == 1;
	}
	EXPECT(probes >= 40);
	EXPECT(probes <= 20000 / 100);
	/* One probe at a time: no new probe while one is pending. */
	samples[1].in_flight = 1;
	for (unsigned i = 20001; i <= 25000; i++)
		EXPECT_EQ(0, path_policy_pick(&state, samples, 2, i * 1000000ull));
}

static void latency_shares_a_new_path(void)
{
	struct path_sample samples[2] = {{.latency = {.mean_ns = 100000}}, {0}};
	struct path_policy_state state;

	/* Nothing measured yet: until the first answer a new path gets its share, not all. */
	path_policy_init(&state, PATH_POLICY_LATENCY, 3);
	for (unsigned i = 1; i <= 20; i++) {
		unsigned picked = path_policy_pick(&state, samples, 2, i * 1000);

		samples[picked].picked_ns = i * 1000;
		samples[picked].in_flight++;
	}
	EXPECT_EQ(10, samples[0].in_flight);
	EXPECT_EQ(10, samples[1].in_flight);
}

static void mean_forgets_with_time(void)
{
	struct path_latency latency = {0};

	path_latency_add(&latency, 0, 1);
	EXPECT_EQ(1, latency.mean_ns);
	latency = (struct path_latency){0};
	path_latency_add(&latency, 1000000, 1000);
	EXPECT_EQ(1000000, latency.mean_ns);
	/* A thousand answers at one instant hardly move the mean. */
	for (unsigned i = 0; i < 1000; i++)
		path_latency_add(&latency, 2000000, 1000);
	EXPECT(latency.mean_ns > 1000000 && latency.mean_ns < 1020000);
	/* One answer after a long time does. */
	path_latency_add(&latency, 2000000, 1000 + SECOND_NS);
	EXPECT(latency.mean_ns > 1900000);
	/* A clock that goes back, and the largest values, do no harm. */
	path_latency_add(&latency, 2000000, 500);
	EXPECT_EQ(1000 + SECOND_NS, latency.updated_ns);
	path_latency_add(&latency, UINT64_MAX, 2 * SECOND_NS);
	path_latency_add(&latency, UINT64_MAX, UINT64_MAX);
	EXPECT(latency.mean_ns > UINT64_MAX / 2);
	path_latency_add(&latency, 1, UINT64_MAX);
	EXPECT(latency.mean_ns > UINT64_MAX / 4);
}

static void huge_waits_do_not_wrap(void)
{
	struct path_sample samples[2] = {
		{.in_flight = UINT32_MAX, .latency = {.mean_ns = UINT64_MAX / 2}},
		{.in_flight = 1, .latency = {.mean_ns = 1000}},
	};
	struct path_policy_state state;

	path_policy_init(&state, PATH_POLICY_LATENCY, 3);
	EXPECT_EQ(1, path_policy_pick(&state, samples, 2, 1));
	samples[1] = samples[0];
	EXPECT(path_policy_pick(&state, samples, 2, 1) < 2);
}

static void numa_takes_the_nearest(void)
{
	struct path_sample samples[3] = {{.numa_distance = 20},
					 {.numa_distance = 10, .in_flight = 9},
					 {.numa_distance = 10}};
	struct path_policy_state state;

	path_policy_init(&state, PATH_POLICY_NUMA, 1);
	for (unsigned i = 0; i < 5; i++)
		EXPECT_EQ(1, path_policy_pick(&state, samples, 3, i));
	samples[0].numa_distance = 0;
	EXPECT_EQ(0, path_policy_pick(&state, samples, 3, 9));
	EXPECT_EQ(0, path_policy_pick(&state, samples, 1, 9));
}

static void round_robin_takes_turns(void)
{
	struct path_sample samples[3] = {{.in_flight = 100}, {0}, {0}};
	struct path_policy_state state;

	path_policy_init(&state, PATH_POLICY_ROUND_ROBIN, 1);
	for (unsigned i = 0; i < 9; i++)
		EXPECT_EQ(i % 3, path_policy_pick(&state, samples, 3, i));
	/* A path was removed: the turn stays in range. */
	for (unsigned i = 0; i < 9; i++)
		EXPECT(path_policy_pick(&state, samples, 2, i) < 2);
	state.turn = UINT32_MAX;
	EXPECT(path_policy_pick(&state, samples, 3, 1) < 3);
	EXPECT_EQ(0, path_policy_pick(&state, samples, 3, 1));
}

static void queue_depth_takes_the_shallowest_and_turns(void)
{
	struct path_sample samples[3] = {{.in_flight = 2}, {.in_flight = 1}, {.in_flight = 2}};
	unsigned counts[3] = {0};
	struct path_policy_state state;

	path_policy_init(&state, PATH_POLICY_QUEUE_DEPTH, 1);
	for (unsigned i = 0; i < 5; i++)
		EXPECT_EQ(1, path_policy_pick(&state, samples, 3, i));
	samples[0].in_flight = samples[2].in_flight = 1;
	for (unsigned i = 0; i < 300; i++)
		counts[path_policy_pick(&state, samples, 3, i)]++;
	EXPECT_EQ(100, counts[0]);
	EXPECT_EQ(100, counts[1]);
	EXPECT_EQ(100, counts[2]);
}

static void names_are_known(void)
{
	enum path_policy policy;

	for (unsigned i = PATH_POLICY_NUMA; i <= PATH_POLICY_LATENCY; i++) {
		EXPECT_EQ(0, path_policy_parse(path_policy_name((enum path_policy)i), &policy));
		EXPECT_EQ(i, policy);
	}
	EXPECT_EQ(-EINVAL, path_policy_parse("fastest", &policy));
	EXPECT_EQ(-EINVAL, path_policy_parse("", &policy));
	EXPECT_STR("unknown", path_policy_name((enum path_policy)77));
}

int main(void)
{
	TAP_RUN(numa_takes_the_nearest);
	TAP_RUN(round_robin_takes_turns);
	TAP_RUN(queue_depth_takes_the_shallowest_and_turns);
	TAP_RUN(mean_forgets_with_time);
	TAP_RUN(latency_beats_queue_depth_when_one_path_slows);
	TAP_RUN(latency_reacts_within_a_second_and_returns);
	TAP_RUN(latency_leaves_a_stalled_path_before_it_answers);
	TAP_RUN(latency_spends_few_commands_on_probes);
	TAP_RUN(latency_shares_a_new_path);
	TAP_RUN(huge_waits_do_not_wrap);
	TAP_RUN(names_are_known);
	return tap_end();
}
