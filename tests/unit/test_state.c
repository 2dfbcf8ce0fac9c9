/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state folder: one holder at a time, counters that survive, unsafe shutdowns that count, the
 * document of older versions that is imported once, a damaged document that is set aside.
 */
#include "daemon/state.h"

#include "temp_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD_ID                                                                                     \
	"{\"version\":1,\"id\":\"x\",\"starts\":1,\"unsafe_shutdowns\":0,\"clean_shutdown\":true}"

static char dir[128];

static void use_folder(const char *name)
{
	snprintf(dir, sizeof(dir), "%s/%s", root, name);
}

static bool has_file(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

static void put_file(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	EXPECT(file != NULL);
	if (file) {
		fputs(text, file);
		fclose(file);
	}
}

static void makes_a_private_folder(void)
{
	struct state_error error;
	struct state state;
	struct stat info;

	use_folder("deep/er/folder");
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(0, stat(dir, &info));
	EXPECT_EQ(0700, info.st_mode & 0777);
	EXPECT_EQ(1, state.starts);
	EXPECT_EQ(0, state.unsafe_shutdowns);
	EXPECT(!uuid_is_nil(&state.id));
	EXPECT_EQ(0, state_close(&state, true));
	EXPECT_EQ(0, state_close(&state, true));
}

static void counts_starts_and_unsafe_ends(void)
{
	struct state_error error;
	struct state state;
	struct uuid id;

	use_folder("counts");
	EXPECT_EQ(0, state_open(dir, &state, &error));
	id = state.id;
	state_close(&state, true);
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(2, state.starts);
	EXPECT_EQ(0, state.unsafe_shutdowns);
	state_close(&state, false);
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(3, state.starts);
	EXPECT_EQ(1, state.unsafe_shutdowns);
	EXPECT(uuid_equal(&id, &state.id));
	state_close(&state, true);
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(4, state.starts);
	EXPECT_EQ(1, state.unsafe_shutdowns);
	state_close(&state, true);
	EXPECT(has_file("weft.db"));
	EXPECT(!has_file("weft.db.new"));
	EXPECT(!has_file("weft.db-wal"));
}

static void refuses_a_second_holder(void)
{
	struct state_error error = {""};
	struct state state, second;
	char pid[32];

	use_folder("locked");
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(-EBUSY, state_open(dir, &second, &error));
	snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	EXPECT(strstr(error.text, dir) != NULL);
	EXPECT(strstr(error.text, pid) != NULL);
	EXPECT(strstr(error.text, "--state") != NULL);
	state_close(&state, true);
	EXPECT_EQ(0, state_open(dir, &second, &error));
	EXPECT_EQ(2, second.starts);
	state_close(&second, true);
}

static void a_killed_holder_is_an_unsafe_end(void)
{
	struct state_error error = {""};
	struct state state;
	int status;
	pid_t child;

	use_folder("killed");
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(state_open(dir, &state, &error) ? 1 : 0);
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(2, state.starts);
	EXPECT_EQ(1, state.unsafe_shutdowns);
	state_close(&state, true);
}

#define OLD_ID "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
#define OLD(clean)                                                                                 \
	"{\"version\":1,\"id\":\"" OLD_ID                                                          \
	"\",\"starts\":7,\"unsafe_shutdowns\":2,\"clean_shutdown\":" clean "}"

static void takes_an_old_document_over_once(void)
{
	struct state_error error = {""};
	struct state state;
	char id[UUID_TEXT_BYTES];

	use_folder("old");
	mkdir(dir, 0700);
	put_file("state.json", OLD("false"));
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(8, state.starts);
	EXPECT_EQ(3, state.unsafe_shutdowns);
	EXPECT(state.was_unclean);
	EXPECT_STR(OLD_ID, uuid_format(&state.id, id));
	EXPECT(!has_file("state.json"));
	EXPECT(has_file("state.json.imported"));
	state_close(&state, true);
	put_file("state.json", OLD("true"));
	EXPECT_EQ(0, state_open(dir, &state, &error));
	EXPECT_EQ(9, state.starts);
	EXPECT_EQ(3, state.unsafe_shutdowns);
	EXPECT(has_file("state.json"));
	state_close(&state, true);
}

static void sets_a_damaged_old_document_aside(void)
{
	static const char *const damaged[] = {
		"", "{\"version\":1,", "[]", "{\"version\":1,\"starts\":-1}", BAD_ID,
	};
	struct state_error error = {""};
	struct state state;
	char name[32];

	for (unsigned i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		snprintf(name, sizeof(name), "damaged-%u", i);
		use_folder(name);
		mkdir(dir, 0700);
		put_file("state.json", damaged[i]);
		EXPECT_EQ(0, state_open(dir, &state, &error));
		EXPECT_EQ(1, state.starts);
		EXPECT_EQ(0, state.unsafe_shutdowns);
		EXPECT(has_file("state.json.damaged"));
		state_close(&state, true);
	}
}

/* Unlike the old counters, the store holds data that cannot be recreated: it is never set aside. */
static void refuses_a_damaged_store(void)
{
	struct state_error error = {""};
	struct state state;

	use_folder("store");
	EXPECT_EQ(0, state_open(dir, &state, &error));
	state_close(&state, true);
	put_file("weft.db", "this is not a database at all, but long enough to be one by its size");
	EXPECT_EQ(-EUCLEAN, state_open(dir, &state, &error));
	EXPECT(strstr(error.text, "weft.db") != NULL);
	EXPECT(strstr(error.text, "backup") != NULL);
	/* And the folder is unlocked again. */
	EXPECT_EQ(-EUCLEAN, state_open(dir, &state, &error));
}

static void says_what_it_cannot_use(void)
{
	struct state_error error = {""};
	struct state state;

	use_folder("");
	put_file("plain", "x");
	use_folder("plain");
	EXPECT_EQ(-ENOTDIR, state_open(dir, &state, &error));
	EXPECT(strstr(error.text, dir) != NULL);
	EXPECT(strstr(error.text, "--state") != NULL);
	use_folder("plain/below");
	EXPECT(state_open(dir, &state, &error) < 0);
}

int main(void)
{
	if (!root_make())
		return 1;
	TAP_RUN(makes_a_private_folder);
	TAP_RUN(counts_starts_and_unsafe_ends);
	TAP_RUN(refuses_a_second_holder);
	TAP_RUN(a_killed_holder_is_an_unsafe_end);
	TAP_RUN(takes_an_old_document_over_once);
	TAP_RUN(sets_a_damaged_old_document_aside);
	TAP_RUN(refuses_a_damaged_store);
	TAP_RUN(says_what_it_cannot_use);
	return root_end();
}
