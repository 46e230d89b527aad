// Lints or renders a chart by helm's own packages, as `helm lint --strict` and `helm template` do.
// The program itself has clients of clusters, registries and databases: it takes minutes to build.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
)

type asked struct {
	chart, release, namespace, file string
	version                         *chartutil.KubeVersion
	sets                            []string
}

func main() {
	of, act := read(os.Args[1:])
	if err := act(of); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

func read(arguments []string) (asked, func(asked) error) {
	acts := map[string]func(asked) error{"lint": linted, "template": rendered}
	if len(arguments) == 0 || acts[arguments[0]] == nil {
		fmt.Fprintln(os.Stderr, "Usage: helm lint|template -chart FOLDER ...")
		os.Exit(2)
	}
	var of asked
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	flags.StringVar(&of.chart, "chart", "", "folder of the chart")
	flags.StringVar(&of.release, "release", "release-name", "name of the release")
	flags.StringVar(&of.namespace, "namespace", "default", "of the release")
	flags.StringVar(&of.file, "values", "", "file of values")
	flags.Func("set", "a value, over those of the file", func(text string) error {
		of.sets = append(of.sets, text)
		return nil
	})
	flags.Func("kube-version", "of the cluster", func(text string) (err error) {
		of.version, err = chartutil.ParseKubeVersion(text)
		return err
	})
	_ = flags.Parse(arguments[1:]) // ends the process itself
	return of, acts[arguments[0]]
}

func (of asked) values() (map[string]any, error) {
	values := map[string]any{}
	if of.file != "" {
		found, err := chartutil.ReadValuesFile(of.file)
		if err != nil {
			return nil, err
		}
		values = found
	}
	for _, text := range of.sets {
		if err := strvals.ParseInto(text, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func linted(of asked) error {
	values, err := of.values()
	if err != nil {
		return err
	}
	found := lint.AllWithKubeVersion(of.chart, values, of.namespace, of.version)
	for _, one := range found.Messages {
		fmt.Println(one)
		if one.Severity >= support.WarningSev {
			err = fmt.Errorf("the chart is not as it should be")
		}
	}
	return err
}

// What `helm template` does for a chart without dependencies.
func rendered(of asked) error {
	values, err := of.values()
	if err != nil {
		return err
	}
	chart, err := loader.Load(of.chart)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependenciesWithMerge(chart, values); err != nil {
		return err
	}
	able := chartutil.DefaultCapabilities.Copy()
	if of.version != nil {
		able.KubeVersion = *of.version
	}
	needed := chart.Metadata.KubeVersion
	if needed != "" && !chartutil.IsCompatibleRange(needed, able.KubeVersion.String()) {
		return fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s",
			needed, able.KubeVersion.String())
	}
	release := chartutil.ReleaseOptions{
		Name: of.release, Namespace: of.namespace, Revision: 1, IsInstall: true,
	}
	whole, err := chartutil.ToRenderValues(chart, values, release, able)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, whole)
	if err != nil {
		return err
	}
	return printed(files)
}

func printed(files map[string]string) error {
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	for _, one := range manifests {
		fmt.Printf("---\n# Source: %s\n%s\n", one.Name, one.Content)
	}
	for _, one := range hooks {
		fmt.Printf("---\n# Source: %s\n%s\n", one.Path, one.Manifest)
	}
	return nil
}
