package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestAnAnswerSaysWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]Outcome{
		200: {}, 204: {}, 202: {},
		301: {Fault: EndpointFault, Error: err4xx}, 307: {Fault: EndpointFault, Error: err4xx},
		400: {Fault: RowRefused, Error: err4xx}, 401: {Fault: RowRefused, Error: err4xx}, 404: {Fault: RowRefused, Error: err4xx},
		408: {Fault: EndpointFault, Error: err4xx}, 425: {Fault: EndpointFault, Error: err4xx}, 429: {Fault: EndpointFault, Error: err4xx},
		410: {Fault: RowGone, Error: err4xx}, 413: {Fault: RowTooLarge, Error: err4xx},
		500: {Fault: EndpointFault, Error: err5xx}, 503: {Fault: EndpointFault, Error: err5xx}, 599: {Fault: EndpointFault, Error: err5xx},
	} {
		want.Status = status
		if got := classify(&http.Response{StatusCode: status, Header: http.Header{}}, began); got != want {
			t.Errorf("%d: %+v, want %+v", status, got, want)
		}
	}
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "0": 1, "-1": 0, "soon": 0, "1e9": 0,
		began.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		began.Add(-time.Minute).Format(http.TimeFormat): 1,
	} {
		if got := retryAfter(value, began); got != want {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
}

func TestFaultsOfConnectionsAreToldByCategoryAlone(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		errTimeout:    context.DeadlineExceeded,
		errConnection: &net.DNSError{Err: "no such host at 10.0.0.1", IsNotFound: true},
	} {
		if got := category(errors.Join(err)); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}
