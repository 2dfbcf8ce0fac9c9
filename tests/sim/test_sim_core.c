/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's processes: what they own, how they die and what remains, their clocks and their
 * memory. The connections between them come from core_world.h; test_sim_faults.c breaks them. One
 * thread.
 */
#include "core_world.h"

#include "base/log.h"

#include <sys/mman.h>

/* Keeps the compiler from removing unused allocations. */
static void *volatile sink;

static void *seen(void *memory)
{
	sink = memory;
	return memory;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void memory_belongs_to_whoever_asked(void)
{
	struct sim *sim = sim_create(1, NULL);
	struct sim_process *process = sim_process_create(sim, "one");
	void *outside = seen(malloc(10)), *inside, *text;

	EXPECT(sim_process_current() == NULL);
	sim_process_enter(process);
	EXPECT(sim_process_current() == process);
	inside = seen(malloc(100));
	EXPECT_EQ(1, sim_process_allocations(process));
	text = seen(strdup("text"));
	EXPECT_EQ(2, sim_process_allocations(process));
	outside = seen(realloc(outside, 5000));
	EXPECT_EQ(2, sim_process_allocations(process));
	sim_process_leave(process);
	inside = seen(realloc(inside, 100000));
	EXPECT_EQ(2, sim_process_allocations(process));
	free(text);
	EXPECT_EQ(1, sim_process_allocations(process));
	free(outside);
	EXPECT_STR("one", sim_process_name(process));
	sim_process_kill(process, SIM_DEATH_KILLED);
	EXPECT_EQ(0, sim_process_allocations(process));
	EXPECT(inside != NULL && !sim_process_is_alive(process));
	sim_destroy(sim);
}

/* Every way to allocate memory. A leak checker would notice too. */
static void memory_of_a_killed_process_is_freed(void)
{
	struct sim *sim = sim_create(1, NULL);
	struct sim_process *process = sim_process_create(sim, "one");
	void *blocks[3000];
	char *text = NULL;
	void *memory;

	sim_process_enter(process);
	for (unsigned i = 0; i < 3000; i++)
		blocks[i] = seen(i % 2 ? malloc(i) : calloc(i, 2));
	for (unsigned i = 0; i < 3000; i += 3)
		free(blocks[i]);
	memory = seen(aligned_alloc(4096, 8192));
	EXPECT(memory && (uintptr_t)memory % 4096 == 0);
	EXPECT(posix_memalign(&memory, 64, 100) == 0 && (uintptr_t)memory % 64 == 0);
	EXPECT(seen(strdup("a")) && seen(strndup("abc", 2)) && asprintf(&text, "%d", 42) == 2);
	EXPECT_STR("42", text);
	EXPECT(seen(reallocarray(NULL, 10, 10)) != NULL);
	memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(memory != MAP_FAILED);
	sim_process_leave(process);
	EXPECT_EQ(2000 + 7, sim_process_allocations(process));
	sim_process_kill(process, SIM_DEATH_KILLED);
	EXPECT_EQ(0, sim_process_allocations(process));
	EXPECT(madvise(memory, 1 << 20, MADV_NORMAL) < 0 && errno == ENOMEM);
	sim_destroy(sim);
}

static unsigned refusals_of(uint64_t seed, unsigned index, uint64_t *ret_order)
{
	struct sim *sim = sim_create(1, NULL);
	struct sim_process *process = sim_process_create(sim, "one");
	struct reactor_config config = {.index = index, .cpu = -1};
	struct reactor *reactor;
	unsigned refused = 0;

	sim_process_enter(process);
	reactor_create(&config, &reactor);
	sim_process_refuse_memory(process, 10, seed);
	for (unsigned i = 0; i < 100; i++)
		EXPECT(seen(malloc(1)) != NULL);
	sim_process_leave(process);
	sim_enter(reactor);
	for (unsigned i = 0; i < 1000; i++) {
		void *memory = seen(i % 2 ? malloc(1) : calloc(1, 1));

		*ret_order = *ret_order * 31 + (memory == NULL);
		refused += memory == NULL;
	}
	EXPECT_EQ(refused, sim_process_refused(process));
	sim_process_refuse_memory(process, 0, seed);
	EXPECT(seen(malloc(1)) != NULL);
	sim_leave(reactor);
	sim_destroy(sim);
	return refused;
}

static void memory_is_refused_as_the_seed_says(void)
{
	uint64_t orders[3] = {0};
	unsigned first = refusals_of(7, 0, &orders[0]);

	EXPECT_THAT(first > 50 && first < 200, "about 100 of 1000, not %u", first);
	EXPECT_EQ(first, refusals_of(7, 0, &orders[1]));
	EXPECT(orders[0] == orders[1]);
	refusals_of(8, 0, &orders[2]);
	EXPECT(orders[0] != orders[2]);
	EXPECT_EQ(0, refusals_of(7, SIM_CONTROL_INDEX, &orders[2]));
}

/* ---- death --------------------------------------------------------------------------------- */

static unsigned calls_after; /* callbacks of a dead process */

static void must_not_post(struct reactor_msg *msg)
{
	calls_after++;
}

static void must_not_fire(struct reactor_timer *timer)
{
	calls_after++;
}

static int must_not_work(struct reactor_op *op)
{
	calls_after++;
	return 0;
}

static void must_not_end(struct reactor_op *op, int res)
{
	calls_after++;
}

static void must_not_be_sent(struct reactor_send *send, int res)
{
	calls_after++;
}

static void must_not_be_released(struct reactor_send *send, bool was_copied)
{
	calls_after++;
}

/* Puts everything that can be in flight into memory of the server. */
static void server_keep_busy(void)
{
	struct busy {
		struct reactor_msg msg;
		struct reactor_timer timer;
		struct reactor_op op;
		struct reactor_send send;
		uint8_t bytes[4096];
		struct talker out;
	} * busy;
	struct reactor *reactor = world.reactors[SERVER];

	sim_enter(reactor);
	busy = calloc(1, sizeof(*busy));
	CHECK(busy != NULL);
	reactor_post(reactor, &busy->msg, must_not_post);
	reactor_timer_init(reactor, &busy->timer, must_not_fire);
	reactor_timer_arm(&busy->timer, reactor_now_ns(reactor) + NS_PER_S);
	busy->op.done = must_not_end;
	reactor_offload(reactor, &busy->op, must_not_work);
	busy->send.sent = must_not_be_sent;
	busy->send.released = must_not_be_released;
	reactor_sock_send_zc(&world.talkers[SERVER]->sock, &busy->send,
			     &(struct iovec){busy->bytes, sizeof(busy->bytes)}, 1);
	busy->out.note = &world.notes[SERVER];
	reactor_sock_connect(reactor, &busy->out.sock, &world.addr, talker_connected, talker_ready);
	sim_leave(reactor);
}

static void a_killed_process_leaves_nothing(void)
{
	for (unsigned how = 0; how < 2; how++) {
		world_create(how + 1, NULL);
		world_connect();
		run_ms(5);
		EXPECT_EQ(1, world.notes[SERVER].opened);
		calls_after = 0;
		server_keep_busy();
		/* A listener, three sockets, a timer, a message, two operations. */
		EXPECT_EQ(8, sim_leaks(world.sim));
		EXPECT_EQ(3, sim_net_open_count(world.sim));
		sim_process_kill(world.processes[SERVER], (enum sim_death)how);
		EXPECT_EQ(1, sim_leaks(world.sim));
		EXPECT_EQ(1, sim_net_open_count(world.sim));
		EXPECT_EQ(0, sim_net_listener_count(world.sim));
		EXPECT_EQ(0, sim_process_allocations(world.processes[SERVER]));
		run_ms(20000);
		EXPECT_EQ(0, calls_after);
		if (how == SIM_DEATH_POWER)
			side_send(CLIENT, 1);
		run_ms(100);
		EXPECT_EQ(1, world.notes[CLIENT].ended);
		EXPECT_EQ(0, sim_leaks(world.sim));
		EXPECT(!sim_step(world.sim));
		sim_destroy(world.sim);
	}
}

static void what_a_killed_process_sent_arrives(void)
{
	world_create(3, &(struct sim_options){.latency_max_us = 50000});
	world_connect();
	run_ms(1000);
	side_send(SERVER, 3000);
	EXPECT(world.notes[SERVER].sent > 0 && world.notes[CLIENT].received == 0);
	sim_process_kill(world.processes[SERVER], SIM_DEATH_KILLED);
	run_ms(1000);
	EXPECT_EQ(world.notes[SERVER].sent, world.notes[CLIENT].received);
	EXPECT_EQ(0, world.notes[CLIENT].wrong_bits);
	EXPECT_EQ(1, world.notes[CLIENT].ended);
	EXPECT_EQ(0, world.notes[CLIENT].end);
	world_connect();
	run_ms(1000);
	EXPECT_EQ(-ECONNREFUSED, world.notes[CLIENT].connect_res);
	sim_destroy(world.sim);
}

/* As in a kernel: unread bytes of a dead process cause a reset. */
static void unread_bytes_of_a_killed_process_reset(void)
{
	world_create(3, NULL);
	world_connect();
	run_ms(10);
	sim_process_freeze(world.processes[SERVER], sim_now(world.sim) + NS_PER_S);
	side_send(CLIENT, 500);
	run_ms(10);
	EXPECT_EQ(0, world.notes[SERVER].received);
	sim_process_kill(world.processes[SERVER], SIM_DEATH_KILLED);
	run_ms(10);
	EXPECT_EQ(1, world.notes[CLIENT].ended);
	EXPECT_EQ(-ECONNRESET, world.notes[CLIENT].end);
	sim_destroy(world.sim);
}

static void a_machine_without_power_is_silent(void)
{
	world_create(4, NULL);
	world_connect();
	run_ms(10);
	sim_process_kill(world.processes[SERVER], SIM_DEATH_POWER);
	run_ms(60000);
	EXPECT_EQ(0, world.notes[CLIENT].ended);
	side_send(CLIENT, 10);
	run_ms(10);
	EXPECT_EQ(1, world.notes[CLIENT].ended);
	EXPECT_EQ(-ECONNRESET, world.notes[CLIENT].end);
	world_connect();
	run_ms(1000);
	EXPECT_EQ(-ECONNREFUSED, world.notes[CLIENT].connect_res);
	sim_destroy(world.sim);
}

/* ---- crashes ------------------------------------------------------------------------------- */

#define EXCHANGED_BYTES 30000

/* Both sides send; the victim dies at its nth operation (0: never). Returns the victim's
 * operations. */
static uint64_t exchange(enum side victim, uint64_t n, enum sim_death how)
{
	struct note *left = &world.notes[!victim];
	struct note *right = &world.notes[victim];
	uint64_t operations, listeners;

	world_create(5, &(struct sim_options){.window_max_bytes = 4096});
	sim_process_crash_after(world.processes[victim], n, how);
	world.notes[CLIENT].to_send = EXCHANGED_BYTES;
	world.notes[SERVER].to_send = EXCHANGED_BYTES;
	world_connect();
	run_ms(100);
	operations = sim_process_operations(world.processes[victim]);
	EXPECT_EQ(n == 0, sim_process_is_alive(world.processes[victim]));
	EXPECT_EQ(0, left->wrong_bits + right->wrong_bits);
	EXPECT_EQ(0, right->late_calls);
	/* Sends after the death, in the last turn, never left. */
	EXPECT(left->received <= right->sent);
	EXPECT(right->received <= left->sent);
	if (n == 0) {
		EXPECT_EQ(EXCHANGED_BYTES, world.notes[CLIENT].received);
		EXPECT_EQ(EXCHANGED_BYTES, world.notes[SERVER].received);
	} else {
		EXPECT_EQ(n, operations);
		EXPECT_EQ(0, sim_process_allocations(world.processes[victim]));
		if (how == SIM_DEATH_POWER && left->opened > left->ended) {
			EXPECT_EQ(0, left->ended);
			side_send(!victim, 1);
			run_ms(100);
		}
		EXPECT_EQ(left->opened, left->ended);
		listeners = victim == CLIENT;
		EXPECT_EQ(listeners, sim_leaks(world.sim));
	}
	sim_destroy(world.sim);
	return operations;
}

static void a_crash_at_any_operation_leaves_the_peer_consistent(void)
{
	for (unsigned victim = 0; victim < 2; victim++) {
		uint64_t operations = exchange((enum side)victim, 0, SIM_DEATH_KILLED);

		printf("# %s: %" PRIu64 " operations\n", victim == CLIENT ? "client" : "server",
		       operations);
		EXPECT_THAT(operations >= 50, "an exchange worth the name, not %u operations",
			    (unsigned)operations);
		for (uint64_t n = 1; n <= operations; n++) {
			exchange((enum side)victim, n, SIM_DEATH_KILLED);
			exchange((enum side)victim, n, SIM_DEATH_POWER);
		}
	}
}

static void die_in_turn(struct reactor_timer *timer)
{
	struct talker *talker = world.talkers[CLIENT];
	uint64_t bytes_before = sim_net_bytes(world.sim);
	uint8_t bytes[100] = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	static struct reactor_msg msg;

	sim_process_crash_after(talker->process, 1, SIM_DEATH_KILLED);
	EXPECT_EQ(100, reactor_sock_send(&talker->sock, &iov, 1));
	EXPECT(!sim_process_is_alive(talker->process));
	EXPECT(sim_process_current() == talker->process);
	EXPECT_EQ(100, reactor_sock_send(&talker->sock, &iov, 1));
	EXPECT_EQ(-EAGAIN, reactor_sock_recv(&talker->sock, &iov, 1));
	EXPECT_EQ(bytes_before, sim_net_bytes(world.sim));
	EXPECT(!sim_process_operate(talker->process));
	reactor_post(world.reactors[SERVER], &msg, must_not_post);
	reactor_sock_close(&talker->sock, talker_closed);
	reactor_timer_arm(timer, reactor_now_ns(timer->reactor));
}

static void a_dying_process_has_no_effect(void)
{
	static struct reactor_timer timers[2];
	uint64_t received;

	world_create(6, NULL);
	world_connect();
	run_ms(10);
	side_send(SERVER, 10);
	run_ms(10);
	received = world.notes[SERVER].received;
	calls_after = 0;
	sim_enter(world.reactors[CLIENT]);
	reactor_timer_init(world.reactors[CLIENT], &timers[0], die_in_turn);
	reactor_timer_init(world.reactors[CLIENT], &timers[1], must_not_fire);
	reactor_timer_arm(&timers[0], sim_now(world.sim) + NS_PER_MS);
	reactor_timer_arm(&timers[1], sim_now(world.sim) + NS_PER_MS + 1);
	sim_leave(world.reactors[CLIENT]);
	sim_freeze(world.reactors[CLIENT], sim_now(world.sim) + 2 * NS_PER_MS);
	run_ms(10);
	EXPECT_EQ(0, calls_after);
	EXPECT(!sim_process_is_alive(world.processes[CLIENT]));
	EXPECT_EQ(received, world.notes[SERVER].received);
	EXPECT_EQ(1, world.notes[SERVER].ended);
	EXPECT_EQ(1, sim_leaks(world.sim));
	sim_destroy(world.sim);
}

/* ---- the order of a death ------------------------------------------------------------------ */

struct witness {
	struct sim_mourner mourner;
	char **memory; /* memory of the process */
	unsigned order;
	enum sim_death how;
};

static unsigned deaths_seen;

static void witness_dead(struct sim_mourner *mourner, struct sim_process *process,
			 enum sim_death how)
{
	struct witness *witness = container_of(mourner, struct witness, mourner);

	EXPECT(sim_process_current() == NULL && reactor_current() == NULL);
	EXPECT(!sim_process_is_alive(process));
	EXPECT_STR("still there", *witness->memory);
	witness->order = ++deaths_seen;
	witness->how = how;
}

static void kill_in_turn(struct reactor_timer *timer)
{
	uint64_t held = sim_process_allocations(world.processes[CLIENT]);

	sim_process_kill(world.processes[SERVER], SIM_DEATH_POWER);
	EXPECT(sim_process_current() == world.processes[CLIENT]);
	EXPECT_EQ(held, sim_process_allocations(world.processes[CLIENT]));
	sim_process_end(world.processes[CLIENT], SIM_DEATH_KILLED);
	EXPECT(!sim_process_is_alive(world.processes[CLIENT]));
}

static void mourners_are_told_before_memory_goes(void)
{
	static struct reactor_timer timer;
	struct witness witnesses[3] = {0};
	char *text;

	world_create(7, NULL);
	sim_process_enter(world.processes[SERVER]);
	text = strdup("still there");
	sim_process_leave(world.processes[SERVER]);
	deaths_seen = 0;
	for (unsigned i = 0; i < 3; i++) {
		witnesses[i].mourner.dead = witness_dead;
		witnesses[i].memory = &text;
		sim_process_add_mourner(world.processes[SERVER], &witnesses[i].mourner);
	}
	sim_process_remove_mourner(&witnesses[1].mourner);
	sim_enter(world.reactors[CLIENT]);
	reactor_timer_init(world.reactors[CLIENT], &timer, kill_in_turn);
	reactor_timer_arm(&timer, sim_now(world.sim) + NS_PER_MS);
	sim_leave(world.reactors[CLIENT]);
	run_ms(10);
	EXPECT_EQ(2, deaths_seen);
	EXPECT_EQ(1, witnesses[0].order);
	EXPECT_EQ(0, witnesses[1].order);
	EXPECT_EQ(2, witnesses[2].order);
	EXPECT_EQ(SIM_DEATH_POWER, witnesses[2].how);
	EXPECT(!sim_process_is_alive(world.processes[CLIENT]));
	EXPECT_EQ(0, sim_leaks(world.sim));
	sim_destroy(world.sim);
}

/* ---- time ---------------------------------------------------------------------------------- */

struct alarm {
	struct reactor_timer timer;
	uint64_t fired_at_ns; /* simulation time */
	uint64_t early_ns;
};

static void alarm_fire(struct reactor_timer *timer)
{
	struct alarm *alarm = container_of(timer, struct alarm, timer);
	uint64_t now_ns = reactor_now_ns(timer->reactor);

	alarm->fired_at_ns = sim_now(world.sim);
	alarm->early_ns = now_ns < timer->deadline_ns ? timer->deadline_ns - now_ns : 0;
}

static struct reactor *clock_reactor(uint64_t offset_ns, int32_t drift_ppm,
				     struct sim_process **ret_process)
{
	struct reactor_config config = {.index = 9, .cpu = -1};
	struct sim_process *process = sim_process_create(world.sim, "clock");
	struct reactor *reactor;

	sim_process_set_clock(process, offset_ns, drift_ppm);
	sim_process_enter(process);
	reactor_create(&config, &reactor);
	sim_process_leave(process);
	*ret_process = process;
	return reactor;
}

static void alarm_set(struct reactor *reactor, struct alarm *alarm, uint64_t in_ns)
{
	*alarm = (struct alarm){0};
	sim_enter(reactor);
	reactor_timer_init(reactor, &alarm->timer, alarm_fire);
	reactor_timer_arm(&alarm->timer, reactor_now_ns(reactor) + in_ns);
	sim_leave(reactor);
}

static void drift_moves_timers(void)
{
	static const int32_t drifts[] = {0, 100000, -100000, 37, -3, 500000};
	static const uint64_t expected_ns[] = {1000000000, 909090909,  1111111111,
					       999963001,  1000003000, 666666667};
	struct sim_process *process;
	struct alarm alarm;

	for (unsigned i = 0; i < 6; i++) {
		struct reactor *reactor;
		uint64_t begin_ns;

		world_create(8, NULL);
		reactor = clock_reactor(5 * NS_PER_S, drifts[i], &process);
		begin_ns = sim_now(world.sim);
		EXPECT_EQ(5 * NS_PER_S + begin_ns +
				  begin_ns / 1000000 * (uint64_t)(int64_t)drifts[i],
			  reactor_now_ns(reactor));
		EXPECT_EQ(reactor_now_ns(reactor), reactor_clock_ns(reactor));
		EXPECT_EQ(reactor_now_ns(reactor), sim_process_clock_ns(process));
		alarm_set(reactor, &alarm, NS_PER_S);
		run_ms(2000);
		EXPECT_EQ(0, alarm.early_ns);
		EXPECT_THAT(alarm.fired_at_ns - begin_ns + 1 >= expected_ns[i] &&
				    alarm.fired_at_ns - begin_ns <= expected_ns[i] + 1,
			    "a second by a clock of %d ppm in %llu ns, not %llu", (int)drifts[i],
			    (unsigned long long)expected_ns[i],
			    (unsigned long long)(alarm.fired_at_ns - begin_ns));
		sim_destroy(world.sim);
	}
}

static void a_jump_moves_timers(void)
{
	struct sim_process *process;
	struct alarm alarms[3];
	struct reactor *reactor;
	uint64_t begin_ns;

	world_create(9, NULL);
	reactor = clock_reactor(0, 0, &process);
	begin_ns = sim_now(world.sim);
	alarm_set(reactor, &alarms[0], 10 * NS_PER_S);
	alarm_set(reactor, &alarms[1], 30 * NS_PER_S);
	alarm_set(world.reactors[CLIENT], &alarms[2], 10 * NS_PER_S);
	run_ms(1000);
	sim_process_jump_clock(process, 20 * NS_PER_S);
	EXPECT_EQ(begin_ns + 21 * NS_PER_S, reactor_now_ns(reactor));
	run_ms(1);
	EXPECT_EQ(begin_ns + NS_PER_S, alarms[0].fired_at_ns);
	EXPECT_EQ(0, alarms[1].fired_at_ns);
	run_ms(60000);
	EXPECT_EQ(begin_ns + 10 * NS_PER_S, alarms[1].fired_at_ns);
	EXPECT_EQ(begin_ns + 10 * NS_PER_S, alarms[2].fired_at_ns);
	sim_destroy(world.sim);
}

static int file_res;

static void file_ended(struct reactor_op *op, int res)
{
	file_res = res;
}

/* Deadlines of file operations use the process' clock. */
static void a_deadline_is_of_the_process_clock(void)
{
	struct reactor_op op = {.done = file_ended};
	struct sim_process *process;
	struct reactor *reactor;

	world_create(10, NULL);
	reactor = clock_reactor(1000 * NS_PER_S, 0, &process);
	for (unsigned i = 0; i < 2; i++) {
		sim_enter(reactor);
		op.deadline_ns = reactor_clock_ns(reactor) - i;
		/* Invalid descriptor: the operation fails if it is made. */
		reactor_fallocate(reactor, &op, -1, 0, 0, 1);
		sim_leave(reactor);
		run_ms(10);
		EXPECT_EQ(i == 0 ? -EBADF : -ECANCELED, file_res);
	}
	sim_destroy(world.sim);
}

static void a_frozen_process_gets_no_turn(void)
{
	struct alarm alarms[2];
	uint64_t until_ns;

	world_create(11, NULL);
	until_ns = sim_now(world.sim) + 5 * NS_PER_S;
	alarm_set(world.reactors[CLIENT], &alarms[0], NS_PER_S);
	alarm_set(world.reactors[SERVER], &alarms[1], NS_PER_S);
	sim_process_freeze(world.processes[CLIENT], until_ns);
	EXPECT_EQ(until_ns, sim_process_frozen_until(world.processes[CLIENT]));
	EXPECT_EQ(0, sim_process_frozen_until(world.processes[SERVER]));
	run_ms(4000);
	EXPECT_EQ(0, alarms[0].fired_at_ns);
	EXPECT_EQ(until_ns - 4 * NS_PER_S, alarms[1].fired_at_ns);
	run_ms(2000);
	EXPECT_EQ(until_ns, alarms[0].fired_at_ns);
	EXPECT_EQ(0, sim_process_frozen_until(world.processes[CLIENT]));
	sim_destroy(world.sim);
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(memory_belongs_to_whoever_asked);
	TAP_RUN(memory_of_a_killed_process_is_freed);
	TAP_RUN(memory_is_refused_as_the_seed_says);
	TAP_RUN(a_killed_process_leaves_nothing);
	TAP_RUN(what_a_killed_process_sent_arrives);
	TAP_RUN(unread_bytes_of_a_killed_process_reset);
	TAP_RUN(a_machine_without_power_is_silent);
	TAP_RUN(a_crash_at_any_operation_leaves_the_peer_consistent);
	TAP_RUN(a_dying_process_has_no_effect);
	TAP_RUN(mourners_are_told_before_memory_goes);
	TAP_RUN(drift_moves_timers);
	TAP_RUN(a_jump_moves_timers);
	TAP_RUN(a_deadline_is_of_the_process_clock);
	TAP_RUN(a_frozen_process_gets_no_turn);
	return tap_end();
}
