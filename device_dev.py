import sys,time,dataclasses,subprocess,os,json
sys.path.insert(0,'src')
import torch,numpy as np
def kernel():
    from navi.model.attention import Boundaries,attend_padded
    from navi.model.kernels import packed_attention
    torch.manual_seed(0); T,H,E=5000,6,32
    rng=np.random.default_rng(0)
    def cuts(m): 
        c=[0]
        while c[-1]<T: c.append(min(T,c[-1]+int(rng.integers(1,m))))
        return Boundaries(torch.tensor(c,dtype=torch.int32,device='cuda'),T)
    w,l=cuts(200),cuts(20)
    q,k,v=[torch.randn(T,H,E,device='cuda',dtype=torch.bfloat16,requires_grad=True) for _ in range(3)]
    first=torch.stack([w.limits[0],l.limits[0]]);end=torch.stack([w.limits[1],l.limits[1]])
    o,_=packed_attention(q,k,v,first,end,3,.2)
    r=torch.cat([attend_padded(q[:,:3].float(),k[:,:3].float(),v[:,:3].float(),w,.2),attend_padded(q[:,3:].float(),k[:,3:].float(),v[:,3:].float(),l,.2)],1)
    g=torch.randn_like(r)
    a=torch.autograd.grad(o,[q,k,v],g.bfloat16());b=torch.autograd.grad(r,[q,k,v],g)
    rel=lambda x,y:((x.float()-y.float()).norm()/y.float().norm()).item()
    print('kernel rel err',rel(o,r),[rel(x,y) for x,y in zip(a,b)],flush=True)
if __name__=='__main__':
    kernel()
    import navi
    from navi.segments import PrepareConfig
    from navi.training import make_preset
    from concurrent.futures import ThreadPoolExecutor
    for d in ('movie','product'):
        t=time.time();c=navi.prepare([f'.carry/corpora/{d}'],f'/tmp/{d}',PrepareConfig(backbone='.carry/minilm',unseen_tables=10));print(d,'prepared',time.time()-t,c.arrays.num_rows,flush=True)
    for d in ('movie','product'):
        p=make_preset('default')
        p=dataclasses.replace(p,backbone='.carry/minilm',sampler=dataclasses.replace(p.sampler,rows_per_batch=256,tables_per_batch=16),training=dataclasses.replace(p.training,epochs=int(os.environ.get('EPOCHS','1')),log_every=50,checkpoint_minutes=None,workers=4))
        t=time.time()
        r=navi.pretrain(f'/tmp/{d}',f'/tmp/model_{d}',p)
        print(d,'trained',round(time.time()-t,1),'rows/s',r.train.get('rows_per_second'),json.dumps(r.train),json.dumps(r.validation),flush=True)
        from safetensors.torch import load_file,save_file
        f=f'/tmp/model_{d}/model.safetensors';save_file({k:v.half() for k,v in load_file(f).items()},f,metadata={'format':'pt'})
        subprocess.run(f'rm -rf /tmp/model_{d}/events /tmp/model_{d}/checkpoints; tar czf /tmp/{d}.tgz -C /tmp/model_{d} . ; split -b 16000000 /tmp/{d}.tgz /tmp/{d}.tgz.; ls -la /tmp/{d}.tgz*; ls /tmp/model_{d}',shell=True)
    subprocess.run('cp /tmp/movie.tgz.a? $OUT/; ls /tmp/*.tgz.*',shell=True)
