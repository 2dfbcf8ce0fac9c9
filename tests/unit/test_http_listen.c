/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the REST API listens and who may use it: lengths and characters of a token, modes of its
 * file, the form of an Authorization header, and files in place of the Unix socket.
 */
#include "api/http.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/weft-http-listen-XXXXXX";
static char path[64];

static void put(const char *text, size_t len, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	CHECK(fchmod(fd, mode) == 0 && close(fd) == 0);
}

/* Returns 0 when the file has a valid token of this length. */
static int load(size_t want_len)
{
	struct http_error error = {.text = ""};
	char *token = NULL;
	int res = http_token_load(path, &token, &error);

	EXPECT((res == 0) == (token != NULL) && (res < 0) == (error.text[0] != 0));
	if (token)
		EXPECT_EQ(want_len, strlen(token));
	free(token);
	return res;
}

static void tokens_have_lengths(void)
{
	static const struct {
		size_t len;
		const char *end;
		int res;
	} rows[] = {
		{0, "", -EINVAL},
		{0, "\n", -EINVAL},
		{HTTP_TOKEN_BYTES_MIN - 1, "", -EINVAL},
		{HTTP_TOKEN_BYTES_MIN - 1, "\n\n", -EINVAL},
		{HTTP_TOKEN_BYTES_MIN, "", 0},
		{HTTP_TOKEN_BYTES_MIN, "\n", 0},
		{HTTP_TOKEN_BYTES_MIN, "\r\n\r\n", 0},
		{HTTP_TOKEN_BYTES_MAX - 1, "", 0},
		{HTTP_TOKEN_BYTES_MAX - 1, "\r\n", 0},
		{HTTP_TOKEN_BYTES_MAX, "", -EINVAL},
		{HTTP_TOKEN_BYTES_MAX, "\n", -EINVAL},
		{HTTP_TOKEN_BYTES_MAX + 1, "", -EINVAL},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		char text[HTTP_TOKEN_BYTES_MAX + 16];
		int res;

		memset(text, 'x', rows[i].len);
		memcpy(text + rows[i].len, rows[i].end, strlen(rows[i].end));
		put(text, rows[i].len + strlen(rows[i].end), 0600);
		res = load(rows[i].len);
		EXPECT_THAT(res == rows[i].res, "%zu bytes: %d, not %d", rows[i].len, rows[i].res,
			    res);
	}
}

static void tokens_are_printable(void)
{
	for (unsigned value = 0; value < 256; value++) {
		bool is_good = value > ' ' && value <= '~';
		char text[HTTP_TOKEN_BYTES_MIN + 1];

		/* First, in the middle, and last, where a line feed would be cut off. */
		for (unsigned at = 0; at < sizeof(text); at += sizeof(text) / 2) {
			memset(text, 'x', sizeof(text));
			text[at] = (char)value;
			if (at == sizeof(text) - 1 && (value == '\n' || value == '\r'))
				continue;
			put(text, sizeof(text), 0600);
			EXPECT_THAT((load(sizeof(text)) == 0) == is_good, "byte %u at %u", value,
				    at);
		}
	}
}

static void token_files_are_private(void)
{
	static const struct {
		mode_t mode;
		int res;
	} rows[] = {
		{0600, 0},      {0400, 0},      {0660, 0},      {0640, 0},
		{0604, -EPERM}, {0602, -EPERM}, {0601, -EPERM}, {0666, -EPERM},
	};
	char text[HTTP_TOKEN_BYTES_MIN];

	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		int res;

		put(text, sizeof(text), rows[i].mode);
		res = load(sizeof(text));
		EXPECT_THAT(res == rows[i].res, "mode %04o: %d, not %d", rows[i].mode, rows[i].res,
			    res);
	}
	CHECK(unlink(path) == 0);
	EXPECT_EQ(-ENOENT, load(0));
	CHECK(mkfifo(path, 0600) == 0);
	EXPECT_EQ(-EINVAL, load(0));
	CHECK(unlink(path) == 0);
}

static void authorization_is_the_whole_token(void)
{
	static const struct {
		const char *header;
		bool matches;
	} rows[] = {
		{"Bearer secret", true},
		{"bearer secret", true},
		{"BEARER secret", true},
		{NULL, false},
		{"", false},
		{"Bearer", false},
		{"Bearer ", false},
		{"Bearersecret", false},
		{"Basic secret", false},
		{"secret", false},
		{"Bearer secre", false},
		{"Bearer secrets", false},
		{"Bearer Secret", false},
		{"Bearer  secret", false},
		{"Bearer secret ", false},
		{"Bearer secret,x", false},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		EXPECT_THAT(http_token_matches("secret", rows[i].header) == rows[i].matches,
			    "\"%s\"", rows[i].header ? rows[i].header : "none");
}

static void sockets_take_the_place_of_dead_ones_alone(void)
{
	struct http_error error;
	struct unix_name name, other;
	struct stat info;
	int fd, second;

	EXPECT_EQ(0, http_listen_unix(path, &fd, &name, &error));
	CHECK(stat(path, &info) == 0);
	EXPECT_EQ(0600, info.st_mode & 07777);
	/* A socket with a live owner stays. */
	EXPECT_EQ(-EADDRINUSE, http_listen_unix(path, &second, &other, &error));
	EXPECT(strstr(error.text, "another process listens") != NULL);
	CHECK(close(fd) == 0 && stat(path, &info) == 0);
	free(name.path); /* as after a kill */
	EXPECT_EQ(0, http_listen_unix(path, &fd, &name, &error));
	unix_name_remove(&name);
	CHECK(close(fd) == 0 && stat(path, &info) != 0);
	/* A file that is no socket stays too. */
	put("data", 4, 0600);
	EXPECT_EQ(-EEXIST, http_listen_unix(path, &fd, &name, &error));
	CHECK(stat(path, &info) == 0 && info.st_size == 4 && unlink(path) == 0);
	EXPECT(http_listen_unix("/nowhere/at/all", &fd, &name, &error) < 0);
}

int main(void)
{
	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	TAP_RUN(tokens_have_lengths);
	TAP_RUN(tokens_are_printable);
	TAP_RUN(token_files_are_private);
	TAP_RUN(authorization_is_the_whole_token);
	TAP_RUN(sockets_take_the_place_of_dead_ones_alone);
	unlink(path);
	rmdir(folder);
	return tap_end();
}
