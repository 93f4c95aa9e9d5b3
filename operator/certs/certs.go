// SPDX-License-Identifier: Apache-2.0

// Package certs gives the webhook server a certificate without cert-manager. It creates, renews and announces it.
//
//	keeper := certs.NewKeeper("peercache-system")
//	server := webhook.NewServer(webhook.Options{TLSOpts: []func(*tls.Config){keeper.ConfigureTLS}})
//	err := keeper.Setup(ctx, mgr)
//	err = mgr.AddReadyzCheck("webhook-certificate", keeper.Ready)
//
// The certificate is in a Secret that all replicas of the operator share. cert-controller creates it, renews it long before
// it expires, and writes its CA into the webhook configuration. Every replica watches the Secret and serves a change at once;
// with a mount of the Secret, a change would take up to two minutes. The private key is never written to disk.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The names that the manifests and the operator share.
const (
	SecretName        = "peercache-webhook-cert" //nolint:gosec // it is a name
	ServiceName       = "peercache-webhook"
	ConfigurationName = "peercache-inject"
	WebhookName       = "inject.peercache.io"

	caName         = "peercache-ca"
	caOrganization = "peercache"
)

// The keys of the Secret.
const (
	certKey    = "tls.crt"
	privateKey = "tls.key"
)

// Keeper serves the current certificate.
type Keeper struct {
	secret  types.NamespacedName
	marker  string // the directory where cert-controller waits for tls.crt
	current atomic.Pointer[tls.Certificate]
	renewed chan struct{} // closed after cert-controller has announced the CA
}

// +kubebuilder:rbac:groups="",namespace=peercache-system,resources=secrets,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",namespace=peercache-system,resources=secrets,resourceNames=peercache-webhook-cert,verbs=update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=peercache-inject,verbs=update

// CacheByObject restricts the manager's cache of Secrets to this one.
func CacheByObject(namespace string) (client.Object, cache.ByObject) {
	return &corev1.Secret{}, cache.ByObject{Namespaces: map[string]cache.Config{
		namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", SecretName)},
	}}
}

// NewKeeper returns a Keeper without a certificate, which Setup creates. The namespace is the operator's own, with the Secret and
// the webhook's Service.
func NewKeeper(namespace string) *Keeper {
	return &Keeper{
		secret:  types.NamespacedName{Namespace: namespace, Name: SecretName},
		renewed: make(chan struct{}),
	}
}

// Setup registers the parts that create, renew, announce and load the certificate, and the readiness check.
func (k *Keeper) Setup(ctx context.Context, mgr ctrl.Manager) error {
	marker, err := os.MkdirTemp("", "peercache-webhook-")
	if err != nil {
		return fmt.Errorf("making a directory for the webhook's public certificate "+
			"(mount an emptyDir at %s, or set TMPDIR): %w", os.TempDir(), err)
	}
	k.marker = marker
	writer, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("making a client for Secret %s: %w", k.secret, err)
	}
	if err := k.ensureSecret(ctx, writer); err != nil {
		return err
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("watching Secret %s: %w", k.secret, err)
	}
	logger := ctrl.Log.WithName("certs")
	load := func(object any) {
		if secret, ok := object.(*corev1.Secret); ok {
			if err := k.load(secret); err != nil {
				logger.Error(err, "the webhook keeps its present certificate")
			}
		}
	}
	recreate := func(any) {
		if err := k.ensureSecret(ctx, writer); err != nil {
			logger.Error(err, "the webhook keeps its present certificate; restart the operator to make a new one")
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    load,
		UpdateFunc: func(_, now any) { load(now) },
		DeleteFunc: recreate,
	}); err != nil {
		return fmt.Errorf("watching Secret %s: %w", k.secret, err)
	}
	// Every replica runs its own rotator. The resourceVersion of the Secret resolves conflicts, and all replicas become
	// ready.
	err = rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:      k.secret,
		CertDir:        k.marker,
		CAName:         caName,
		CAOrganization: caOrganization,
		DNSName:        fmt.Sprintf("%s.%s.svc", ServiceName, k.secret.Namespace),
		IsReady:        k.renewed,
		FieldOwner:     "peercache-operator",
		Webhooks:       []rotator.WebhookInfo{{Name: ConfigurationName, Type: rotator.Mutating}},
	})
	if err != nil {
		return fmt.Errorf("setting up the rotation of the webhook's certificate: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook-certificate", k.ready); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

// ensureSecret creates the empty Secret that cert-controller requires.
func (k *Keeper) ensureSecret(ctx context.Context, writer client.Client) error {
	err := writer.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: k.secret.Namespace,
		Name:      k.secret.Name,
		Labels:    map[string]string{"app.kubernetes.io/name": "peercache", "app.kubernetes.io/component": "webhook"},
	}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s for the webhook's certificate: %w", k.secret, err)
	}
	return nil
}

// load begins to serve the certificate in the Secret. An empty Secret is no error.
func (k *Keeper) load(secret *corev1.Secret) error {
	if len(secret.Data[certKey]) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(secret.Data[certKey], secret.Data[privateKey])
	if err != nil {
		return fmt.Errorf("reading the certificate in Secret %s: %w", k.secret, err)
	}
	k.current.Store(&pair)
	// cert-controller continues when it sees the file, so the file is written last. It contains no secret.
	if err := os.WriteFile(filepath.Join(k.marker, certKey), secret.Data[certKey], 0o600); err != nil {
		return fmt.Errorf("noting that the certificate is loaded: %w", err)
	}
	return nil
}

// ConfigureTLS makes a server serve the current certificate.
func (k *Keeper) ConfigureTLS(config *tls.Config) {
	serve(config, byOperator, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if certificate := k.current.Load(); certificate != nil {
			return certificate, nil
		}
		return nil, fmt.Errorf("the webhook's certificate is not ready yet: Secret %s is empty", k.secret)
	})
}

// ready is a readiness check. It succeeds when a certificate is served and the webhook configuration has its CA.
func (k *Keeper) ready(*http.Request) error {
	if k.current.Load() == nil {
		return fmt.Errorf("the Secret %s holds no certificate yet", k.secret)
	}
	select {
	case <-k.renewed:
		return nil
	default:
		return errors.New("the CA is not in MutatingWebhookConfiguration " + ConfigurationName + " yet")
	}
}
