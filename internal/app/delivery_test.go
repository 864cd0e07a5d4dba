package app_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// A client that asks for a long answer and then does not read it is recorded as
// what it is, and the target as one that answered.
func TestALongAnswerThatNobodyReadsIsNoSuccess(t *testing.T) {
	t.Parallel()
	long := strings.Replace(apptest.OKBody, `"ok"`, `"`+strings.Repeat("long ", 4<<20)+`"`, 1)
	a := apptest.NewUpstream(t, apptest.JSON(http.StatusOK, long))
	g := apptest.Start(t, apptest.OneTarget(a, `server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0", write_timeout: 500ms}`))

	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(apptest.ChatBody), apptest.ChatBody)

	row := g.Runs(t, 1)[0]
	want := apptest.Row{"outcome": "cancelled", "failure_class": "cancelled", "failure_reason": "slow_reader", "http_status": 499}
	if got := row.Only(want); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after %v the run is %v, want %v", time.Since(began), got, want)
	}
	if attempt := g.Attempts(t, 1)[0]; attempt["outcome"] != "success" {
		t.Errorf("the attempt is a %v", attempt["outcome"])
	}
	if got, _ := io.Copy(io.Discard, conn); got >= int64(len(long)) {
		t.Errorf("the client got %d bytes although it was given up", got)
	}
}
