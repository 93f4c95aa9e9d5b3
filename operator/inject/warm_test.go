// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// slowInformers fails once for each kind, and then takes a minute to fill.
type slowInformers struct {
	informertest.FakeInformers

	asked []string
}

func (s *slowInformers) GetInformer(ctx context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := fmt.Sprintf("%T", object)
	s.asked = append(s.asked, kind)
	if len(s.asked)%2 == 1 {
		return nil, errors.New("no matches for kind")
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Minute):
		return nil, nil
	}
}

func TestAReplicaIsReadyWhenItsCacheIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informers := &slowInformers{}
		objects := Options{}.cachedObjects()
		w := newWarmer(informers, objects)
		if (manager.LeaderElectionRunnable)(w).NeedLeaderElection() {
			t.Error("a replica that does not lead answers requests, too")
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Start(t.Context()) }()
		for range objects { // each takes a minute, after a retry
			synctest.Wait()
			if w.ready(nil) == nil {
				t.Errorf("ready after asking for %q", informers.asked)
			}
			time.Sleep(warmRetry + time.Minute)
		}
		synctest.Wait()
		if err := w.ready(nil); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		var want []string
		for _, object := range objects {
			kind := fmt.Sprintf("%T", object)
			want = append(want, kind, kind)
		}
		if !slices.Equal(informers.asked, want) {
			t.Errorf("asked for %q, want %q", informers.asked, want)
		}
	})
}

func TestAnOperatorThatStopsDoesNotWaitForItsCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarmer(&slowInformers{}, Options{}.cachedObjects())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := w.Start(ctx); err != nil || w.ready(nil) == nil {
			t.Errorf("it ends with %v, ready %v", err, w.ready(nil))
		}
	})
}
