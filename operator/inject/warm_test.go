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
		w := newWarmer(informers, Options{}.cachedObjects())
		if (manager.LeaderElectionRunnable)(w).NeedLeaderElection() {
			t.Error("a replica that does not lead answers requests, too")
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Start(t.Context()) }()
		for _, after := range []time.Duration{0, time.Minute, time.Minute} { // the cache is filled after 2 min and 2 s
			time.Sleep(after)
			synctest.Wait()
			if w.ready(nil) == nil {
				t.Errorf("ready after asking for %q", informers.asked)
			}
		}
		time.Sleep(2 * warmRetry)
		synctest.Wait()
		if err := w.ready(nil); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []string{"*v1alpha1.PeerCacheCluster", "*v1alpha1.PeerCacheCluster", "*v1.PartialObjectMetadata", "*v1.PartialObjectMetadata"}
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
